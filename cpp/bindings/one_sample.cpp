#include "one_sample.hpp"

#include "module.hpp"

namespace annealed {

static bool read_number(PyObject* value, double& number) {
    number = PyFloat_AsDouble(value);
    if (number != -1.0 || !PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

const double* read_sample(nb::handle x, const SampleFormat& format, int d) {
    static thread_local Doubles values;
    values.resize(static_cast<std::size_t>(d));
    PyObject* sample = x.ptr();
    if (PyDict_Check(sample)) {
        PyObject* keys = format.keys.ptr();
        if (!PyTuple_Check(keys) || PyTuple_Size(keys) != d || PyDict_Size(sample) != d)
            return nullptr;
        for (int j = 0; j < d; ++j) {
            PyObject* value = PyDict_GetItemWithError(sample, PyTuple_GetItem(keys, j));
            if (!value || !read_number(value, values[j])) return PyErr_Clear(), nullptr;
        }
    } else if (PyList_Check(sample) || PyTuple_Check(sample)) {
        const bool list = PyList_Check(sample);
        if ((list ? PyList_Size(sample) : PyTuple_Size(sample)) != d) return nullptr;
        for (int j = 0; j < d; ++j)
            if (!read_number(list ? PyList_GetItem(sample, j) : PyTuple_GetItem(sample, j),
                             values[j]))
                return nullptr;
    } else {
        Vector array;
        if (!nb::try_cast<Vector>(x, array, false) || array.shape(0) != values.size())
            return nullptr;
        std::copy(array.data(), array.data() + d, values.begin());
    }
    for (const double value : values)  // nan is not between them either
        if (!(value > format.low && value < format.high)) return nullptr;
    return values.data();
}

void define_one_sample(nb::module_& m) {
    nb::class_<SampleFormat>(m, "SampleFormat")
        .def(nb::init<nb::object, double, double>(), "keys"_a.none(), "low"_a, "high"_a);
}

}  // namespace annealed
