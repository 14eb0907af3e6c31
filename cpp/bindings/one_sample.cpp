#include "one_sample.hpp"

#include <cstring>

#include "module.hpp"

namespace annealed {

static bool read_number(PyObject* value, double& number) {
    number = PyFloat_AsDouble(value);
    if (number != -1.0 || !PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

// By the buffer protocol: an ndarray of nanobind takes longer to make
// than most samples take to learn.
bool read_array(PyObject* sample, Doubles& values) {
    Py_buffer buffer;
    if (!PyObject_CheckBuffer(sample) ||
        PyObject_GetBuffer(sample, &buffer, PyBUF_ND | PyBUF_FORMAT) != 0)
        return PyErr_Clear(), false;
    const bool fits = buffer.ndim == 1 && buffer.format && std::strcmp(buffer.format, "d") == 0 &&
                      buffer.shape[0] == static_cast<Py_ssize_t>(values.size());
    if (fits) std::memcpy(values.data(), buffer.buf, values.size() * sizeof(double));
    PyBuffer_Release(&buffer);
    return fits;
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
        if (!read_array(sample, values)) return nullptr;
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
