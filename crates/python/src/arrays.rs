//! NumPy arrays as inputs and outputs of a model: read where they lie, and written by the last kernels themselves.

use std::ffi::c_int;

use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use talweg_runtime::model::{Port, RunError};
use talweg_tensor::{ElementType, TensorType};

use crate::error::input;

/// An input or output of a model, as Python sees it.
pub struct PyPort {
    /// Its name.
    pub name: Py<PyString>,
    /// Its type in the model.
    pub ty: TensorType,
    dtype: Py<PyArrayDescr>,
    dims: Vec<npy_intp>,
}

/// What NumPy calls an element type.
fn numpy_name(element: ElementType) -> &'static str {
    match element {
        ElementType::F32 => "float32",
        ElementType::F64 => "float64",
        ElementType::F16 => "float16",
        ElementType::BF16 => "bfloat16",
        ElementType::I8 => "int8",
        ElementType::I16 => "int16",
        ElementType::I32 => "int32",
        ElementType::I64 => "int64",
        ElementType::U8 => "uint8",
        ElementType::U16 => "uint16",
        ElementType::U32 => "uint32",
        ElementType::U64 => "uint64",
        ElementType::Bool => "bool",
    }
}

/// NumPy's type for an element type. NumPy has no bfloat16 of its own: it is that of `ml_dtypes` where that is installed,
/// and otherwise its bits.
fn dtype_of(py: Python<'_>, element: ElementType) -> PyResult<Bound<'_, PyArrayDescr>> {
    if element != ElementType::BF16 {
        return PyArrayDescr::new(py, numpy_name(element));
    }
    match py.import("ml_dtypes") {
        Ok(module) => PyArrayDescr::new(py, module.getattr("bfloat16")?),
        Err(_) => PyArrayDescr::new(py, "uint16"),
    }
}

/// The element type of a NumPy type.
fn element_of(dtype: &Bound<'_, PyArrayDescr>) -> Option<ElementType> {
    let name: String = dtype.getattr("name").and_then(|n| n.extract()).ok()?;
    ElementType::ALL.into_iter().find(|element| numpy_name(*element) == name)
}

impl PyPort {
    /// A port of a model.
    pub fn new(py: Python<'_>, port: &Port) -> PyResult<PyPort> {
        let ty = port.operand.ty();
        Ok(PyPort {
            name: PyString::new(py, &port.name).unbind(),
            dtype: dtype_of(py, ty.element)?.unbind(),
            dims: ty.shape.iter().map(|extent| *extent as npy_intp).collect(),
            ty,
        })
    }

    /// NumPy's type of its elements.
    pub fn dtype<'py>(&self, py: Python<'py>) -> &Bound<'py, PyArrayDescr> {
        self.dtype.bind(py)
    }

    /// An array that can be read as it lies: the given one if it is contiguous, otherwise a copy. Numbers and lists take
    /// the model's type; arrays must have it.
    pub fn given<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = value.py();
        if let Ok(array) = value.cast::<PyUntypedArray>()
            && array.is_c_contiguous()
            && array.is_aligned()
            && self.fits(array)
        {
            return Ok(array.clone());
        }
        let numpy = py.import(intern!(py, "numpy"))?;
        let has_type = value.hasattr(intern!(py, "dtype"))? || value.hasattr(intern!(py, "__array__"))?;
        let array = match has_type {
            true => numpy.call_method1(intern!(py, "asarray"), (value,))?,
            false => numpy.call_method1(intern!(py, "asarray"), (value, self.dtype.bind(py)))?,
        };
        let array = array.cast_into::<PyUntypedArray>()?;
        let is_swapped =
            || array.shape() == self.ty.shape && element_of(&array.dtype()) == Some(self.ty.element);
        if !self.fits(&array) && !is_swapped() {
            return Err(self.refuse(&array));
        }
        // `require` copies only what is not contiguous, aligned and of the machine's byte order; `ascontiguousarray` would
        // give scalars an axis.
        let wanted = (array, self.dtype.bind(py), "CA");
        Ok(numpy.call_method1(intern!(py, "require"), wanted)?.cast_into::<PyUntypedArray>()?)
    }

    fn fits(&self, array: &Bound<'_, PyUntypedArray>) -> bool {
        let (have, want) = (array.dtype(), self.dtype.bind(array.py()));
        array.shape() == self.ty.shape && (have.is(want) || have.is_equiv_to(want))
    }

    fn refuse(&self, array: &Bound<'_, PyUntypedArray>) -> PyErr {
        let (name, wanted) = (self.name.to_string(), self.ty.clone());
        match element_of(&array.dtype()) {
            Some(element) => {
                let given = TensorType::new(element, array.shape());
                input(RunError::InputType { name, wanted, given })
            }
            None => input(format!(
                "input `{name}` is {wanted}, given was an array of {}; convert it, for example with astype",
                array.dtype()
            )),
        }
    }

    /// A new array for this output, which NumPy owns, and its memory.
    pub fn empty<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
        let descr = self.dtype.bind(py).clone().into_dtype_ptr();
        let mut dims = self.dims.clone();
        // SAFETY: the type object is NumPy's own; the descriptor is handed over, as the function wants it; `dims` has as
        // many extents as said; without data and strides NumPy makes both, and without a flag in C's order.
        let array = unsafe {
            let subtype = get_type_object(py, NpyTypes::PyArray_Type);
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                subtype,
                descr,
                dims.len() as c_int,
                dims.as_mut_ptr(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                0,
                std::ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(py, array)?
        };
        let memory = pointer(array.cast::<PyUntypedArray>()?);
        Ok((array, memory))
    }
}

/// Where an array's elements begin.
pub fn pointer(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the object is a NumPy array, whose header this is, for as long as it is borrowed.
    unsafe { (*array.as_array_ptr()).fields.data.cast() }
}
