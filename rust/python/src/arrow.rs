//! Moving Arrow data across the boundary through the `PyCapsule` interface, without a copy. This is
//! the only module with pointers.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use deltaberg_core::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::error;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// An Arrow array of any type, from an object with `__arrow_c_array__`.
pub struct InArray(pub ArrayRef);

impl<'a, 'py> FromPyObject<'a, 'py> for InArray {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(import(&object, ArrayData::validate_full)?))
    }
}

/// An Arrow array whose values are only read as bytes, so that text is not checked to be UTF-8: that
/// would take longer than hashing it. Offsets are checked.
pub struct InBytes(pub ArrayRef);

impl<'a, 'py> FromPyObject<'a, 'py> for InBytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(import(&object, ArrayData::validate)?))
    }
}

/// A record batch, from an object with `__arrow_c_array__`.
pub struct InBatch(pub RecordBatch);

impl<'a, 'py> FromPyObject<'a, 'py> for InBatch {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array = import(&object, ArrayData::validate_full)?;
        let rows: Option<&StructArray> = array.as_any().downcast_ref();
        match rows.filter(|rows| rows.null_count() == 0) {
            Some(rows) => Ok(Self(RecordBatch::from(rows))),
            None => Err(refuse(object.py(), "a record batch was expected")),
        }
    }
}

/// A schema, from an object with `__arrow_c_schema__`.
pub struct InSchema(pub SchemaRef);

impl<'a, 'py> FromPyObject<'a, 'py> for InSchema {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let capsule = object
            .call_method0("__arrow_c_schema__")
            .map_err(|_| refuse(py, "an object with the Arrow PyCapsule interface was expected"))?;
        let capsule = capsule.cast_into::<PyCapsule>()?;
        let schema: NonNull<FFI_ArrowSchema> = capsule.pointer_checked(Some(SCHEMA))?.cast();
        #[expect(unsafe_code, reason = "the Arrow C data interface is made of pointers")]
        // SAFETY: a capsule of this name holds this struct, and it lives until the end of this function.
        let schema = unsafe { schema.as_ref() };
        // A name that is not UTF-8 makes it panic.
        let schema = catch_unwind(AssertUnwindSafe(|| Schema::try_from(schema)));
        let schema = schema.map_err(|_| refuse(py, "the schema cannot be read"))?;
        Ok(Self(Arc::new(schema.map_err(|error| refuse(py, &error.to_string()))?)))
    }
}

/// Imports an array and checks it, usually in full, since text that was read from files may not be UTF-8.
fn import(object: &Bound<'_, PyAny>, check: fn(&ArrayData) -> Result<(), ArrowError>) -> PyResult<ArrayRef> {
    let py = object.py();
    let pair = object
        .call_method0("__arrow_c_array__")
        .map_err(|_| refuse(py, "an object with the Arrow PyCapsule interface was expected"))?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.cast_into::<PyTuple>()?.extract()?;
    let schema: NonNull<FFI_ArrowSchema> = schema.pointer_checked(Some(SCHEMA))?.cast();
    let array: NonNull<FFI_ArrowArray> = array.pointer_checked(Some(ARRAY))?.cast();
    #[expect(unsafe_code, reason = "the Arrow C data interface is made of pointers")]
    // SAFETY: capsules of these names hold these structs, and the producer keeps them valid while
    // the capsules live, which is longer than this block. `from_raw` moves the array out, and its
    // release callback with it.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let checked = data.and_then(|data| check(&data).map(|()| data));
    Ok(make_array(checked.map_err(|error| refuse(py, &error.to_string()))?))
}

/// Exports an array as `pyarrow.Array`.
pub fn array_to_python<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    export(py, array, "Array")
}

/// Exports a batch as `pyarrow.RecordBatch`.
pub fn batch_to_python(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    export(py, &StructArray::from(batch), "RecordBatch")
}

/// Exports batches, of which there is at least one, as `pyarrow.Table`.
pub fn table_to_python(py: Python<'_>, batches: Vec<RecordBatch>) -> PyResult<Bound<'_, PyAny>> {
    let batches: Vec<_> = batches.into_iter().map(|batch| batch_to_python(py, batch)).collect::<PyResult<_>>()?;
    py.import("pyarrow")?.getattr("Table")?.call_method1("from_batches", (batches,))
}

/// Exports any number of batches as `pyarrow.Table` with a given schema.
pub fn table_of_schema<'py>(
    py: Python<'py>,
    batches: Vec<RecordBatch>,
    schema: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let batches: Vec<_> = batches.into_iter().map(|batch| batch_to_python(py, batch)).collect::<PyResult<_>>()?;
    py.import("pyarrow")?.getattr("Table")?.call_method1("from_batches", (batches, schema))
}

/// Exports masks as one `pyarrow.ChunkedArray`.
pub fn masks_to_python<'py>(py: Python<'py>, masks: &[BooleanArray]) -> PyResult<Bound<'py, PyAny>> {
    let pyarrow = py.import("pyarrow")?;
    let chunks: Vec<_> = masks.iter().map(|mask| array_to_python(py, mask)).collect::<PyResult<_>>()?;
    pyarrow.getattr("chunked_array")?.call1((chunks, pyarrow.call_method0("bool_")?))
}

fn export<'py>(py: Python<'py>, array: &dyn Array, class: &str) -> PyResult<Bound<'py, PyAny>> {
    let exported = to_ffi(&array.to_data());
    let (array, schema) = exported.map_err(|error| refuse(py, &error.to_string()))?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    py.import("pyarrow")?.getattr(class)?.call_method1("_import_from_c_capsule", (schema, array))
}

fn refuse(py: Python<'_>, what: &str) -> PyErr {
    error::to_python(py, &Error::new(ErrorKind::InvalidArgument, what))
}

/// Downcasts an array to the type that a kernel takes.
pub fn downcast<'a, T: 'static>(py: Python<'_>, array: &'a ArrayRef, what: &str) -> PyResult<&'a T> {
    array.as_any().downcast_ref().ok_or_else(|| {
        let error = ArrowError::CastError(format!("{what} was expected, not {}", array.data_type()));
        refuse(py, &error.to_string())
    })
}
