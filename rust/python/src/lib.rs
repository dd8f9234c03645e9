//! `deltaberg._native`: the kernels of `deltaberg-core` for Python.
//!
//! It has one thin function or class per kernel, with the name, parameters and results of its twin in
//! `deltaberg.kernels.pure`. Nothing is decided here.

#![allow(clippy::needless_pass_by_value, reason = "pyo3 hands extracted arguments over by value")]

mod arrow;
mod avro;
mod bitmap;
mod bounds;
mod curves;
mod enter;
mod error;
mod fingerprint;
mod keys;
mod locations;
mod murmur;
mod parquet;
mod partition;
mod paths;
mod replay;
mod stats;
mod theta;
mod z85;

use pyo3::prelude::*;

/// The compiled kernels. Use them through `deltaberg.kernels`.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ERROR_KINDS", error::names())?;
    module.add_function(wrap_pyfunction!(avro::decode_avro, module)?)?;
    module.add_function(wrap_pyfunction!(avro::decode_chosen, module)?)?;
    module.add_function(wrap_pyfunction!(avro::encode_avro, module)?)?;
    module.add_function(wrap_pyfunction!(avro::find_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(z85::z85_encode, module)?)?;
    module.add_function(wrap_pyfunction!(z85::z85_decode, module)?)?;
    module.add_function(wrap_pyfunction!(bitmap::unframe_bitmap, module)?)?;
    module.add_function(wrap_pyfunction!(bitmap::bitmap_positions, module)?)?;
    module.add_function(wrap_pyfunction!(bitmap::encode_bitmap, module)?)?;
    module.add_function(wrap_pyfunction!(bitmap::keep_mask, module)?)?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    module.add_function(wrap_pyfunction!(replay::reconcile, module)?)?;
    module.add_function(wrap_pyfunction!(stats::parse_stats, module)?)?;
    module.add_function(wrap_pyfunction!(stats::parse_log_stats, module)?)?;
    module.add_function(wrap_pyfunction!(stats::stats_texts, module)?)?;
    module.add_function(wrap_pyfunction!(stats::format_stats, module)?)?;
    module.add_function(wrap_pyfunction!(partition::parse_partition_values, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::parse_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::parse_counts, module)?)?;
    module.add_function(wrap_pyfunction!(keys::index_keys, module)?)?;
    module.add_function(wrap_pyfunction!(keys::contains_keys, module)?)?;
    module.add_function(wrap_pyfunction!(keys::find_keys, module)?)?;
    module.add_function(wrap_pyfunction!(locations::locate_paths, module)?)?;
    module.add_class::<parquet::ParquetRows>()?;
    module.add_class::<paths::PathSet>()?;
    module.add_function(wrap_pyfunction!(fingerprint::fingerprint, module)?)?;
    module.add_function(wrap_pyfunction!(murmur::hash32, module)?)?;
    module.add_function(wrap_pyfunction!(murmur::bucket, module)?)?;
    module.add_function(wrap_pyfunction!(curves::range_ids, module)?)?;
    module.add_function(wrap_pyfunction!(curves::curve_keys, module)?)?;
    module.add_function(wrap_pyfunction!(theta::update_sketch, module)?)?;
    module.add_function(wrap_pyfunction!(theta::unite_sketches, module)?)?;
    Ok(())
}
