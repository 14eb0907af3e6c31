// One record of numbers at a time: read, learnt and standardised (running.hpp).
#include <limits>
#include <utility>

#include "../running.hpp"
#include "module.hpp"
#include "one_sample.hpp"

namespace annealed {

// A record's cells by name, and what is known of its columns, all of them numbers.
class RecordReader {
public:
    RecordReader(nb::tuple names, bool standardize, bool keys_may_differ, double largest,
                 Statistic count, Statistic mean, Statistic m2, Statistic fill)
        : names_(std::move(names)), standardize_(standardize), keys_may_differ_(keys_may_differ),
          largest_(largest), count_(std::move(count)), mean_(std::move(mean)), m2_(std::move(m2)),
          fill_(std::move(fill)), d_(nb::len(names_)), x_(d_), before_(3 * d_) {
        for (const Statistic* each : {&count_, &mean_, &m2_, &fill_})
            require(each->shape(0) == d_, "names and statistics differ in their features");
    }

    // The record as a vector, by what is known once it is learnt; None where it is out of the ordinary.
    nb::object learn(nb::handle record) {
        if (!read(record.ptr())) return nb::none();
        double* part = before_.data();
        for (const Statistic* each : {&count_, &mean_, &m2_}) {
            std::copy(each->data(), each->data() + d_, part);
            part += d_;
        }
        double* out;
        auto array = new_array<double>({d_}, out);
        running_standardise(x_.data(), 1, static_cast<std::int64_t>(d_), count_.data(), mean_.data(),
                            m2_.data(), fill_.data(), out);
        if (!standardize_) fill_in(out);
        return nb::cast(array);
    }

    // Statistics as they were before the record that was learnt last.
    void take_back() {
        const double* part = before_.data();
        for (Statistic* each : {&count_, &mean_, &m2_}) {
            std::copy(part, part + d_, each->data());
            part += d_;
        }
    }

    nb::object transform(nb::handle record) {
        if (!read(record.ptr())) return nb::none();
        double* out;
        auto array = new_array<double>({d_}, out);
        if (standardize_)
            standardise(x_.data(), static_cast<std::int64_t>(d_), count_.data(), mean_.data(),
                        m2_.data(), fill_.data(), out);
        else
            fill_in(out);
        return nb::cast(array);
    }

private:
    nb::tuple names_;
    bool standardize_, keys_may_differ_;
    double largest_;
    Statistic count_, mean_, m2_, fill_;
    std::size_t d_;
    Doubles x_, before_;

    void fill_in(double* out) const {
        for (std::size_t j = 0; j < d_; ++j) {
            const double stand_in = std::isnan(fill_.data()[j]) ? mean_.data()[j] : fill_.data()[j];
            out[j] = std::isnan(x_[j]) ? stand_in : x_[j];
        }
    }

    // A float, a whole number, a truth value, or nothing; whatever else is looked at elsewhere.
    static bool read_cell(PyObject* cell, double& number) {
        if (PyFloat_Check(cell)) {
            number = PyFloat_AsDouble(cell);
        } else if (PyLong_Check(cell)) {
            number = PyLong_AsDouble(cell);
            if (number == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
        } else if (cell == Py_None) {
            number = std::numeric_limits<double>::quiet_NaN();
        } else {
            return false;
        }
        return true;
    }

    bool read(PyObject* record) {
        const auto d = static_cast<Py_ssize_t>(d_);
        if (PyDict_Check(record)) {
            Py_ssize_t known = 0;
            for (Py_ssize_t j = 0; j < d; ++j) {
                PyObject* cell = PyDict_GetItemWithError(record, PyTuple_GetItem(names_.ptr(), j));
                if (cell) {
                    ++known;
                    if (!read_cell(cell, x_[static_cast<std::size_t>(j)])) return false;
                } else {
                    if (PyErr_Occurred()) return PyErr_Clear(), false;
                    x_[static_cast<std::size_t>(j)] = std::numeric_limits<double>::quiet_NaN();
                }
            }
            if (!keys_may_differ_ && (known != d || PyDict_Size(record) != d)) return false;
        } else if (PyList_Check(record) || PyTuple_Check(record)) {
            const bool list = PyList_Check(record);
            if ((list ? PyList_Size(record) : PyTuple_Size(record)) != d) return false;
            for (Py_ssize_t j = 0; j < d; ++j)
                if (!read_cell(list ? PyList_GetItem(record, j) : PyTuple_GetItem(record, j),
                               x_[static_cast<std::size_t>(j)]))
                    return false;
        } else if (!read_array(record, x_)) {
            return false;
        }
        for (const double value : x_)  // nan is a missing cell
            if (value > largest_ || value < -largest_) return false;
        return true;
    }
};

void define_record(nb::module_& m) {
    nb::class_<RecordReader>(m, "RecordReader")
        .def(nb::init<nb::tuple, bool, bool, double, Statistic, Statistic, Statistic, Statistic>(),
             "names"_a, "standardize"_a, "keys_may_differ"_a, "largest"_a, "count"_a, "mean"_a,
             "m2"_a, "fill"_a)
        .def("learn", &RecordReader::learn, "record"_a.none(),
             "Learn a record; what it is then as a vector, None where it is out of the ordinary.")
        .def("take_back", &RecordReader::take_back, "Unlearn the record learnt last.")
        .def("transform", &RecordReader::transform, "record"_a.none(),
             "A record as a vector; None where it is out of the ordinary.");
}

}  // namespace annealed
