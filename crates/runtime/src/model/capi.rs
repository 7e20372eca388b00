//! The C interface to models, declared in `include/talweg_runtime.h`: a model is loaded once, a session runs it.
//!
//! Conventions as in [`crate::capi`]: null and a text on error, null handles accepted.

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;

use super::load::Model;
use super::manifest::Port;
use super::session::{Session, SessionOptions};
use crate::capi::fail;

/// A model's handle in C: the model, and its names as C strings.
pub struct CModel {
    model: Arc<Model>,
    inputs: Vec<CString>,
    outputs: Vec<CString>,
}

impl CModel {
    fn boxed(model: Model) -> *mut CModel {
        let names = |ports: &[Port]| {
            ports.iter().map(|port| CString::new(port.name.replace('\0', "")).unwrap_or_default()).collect()
        };
        let (inputs, outputs) = (names(&model.manifest().inputs), names(&model.manifest().outputs));
        Box::into_raw(Box::new(CModel { model: Arc::new(model), inputs, outputs }))
    }

    fn port(&self, is_output: i32, at: usize) -> Option<&Port> {
        let manifest = self.model.manifest();
        if is_output != 0 { manifest.outputs.get(at) } else { manifest.inputs.get(at) }
    }
}

/// Loads an artefact's file; null on error.
///
/// # Safety
/// `path` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_model_open(path: *const c_char) -> *mut CModel {
    if path.is_null() {
        return fail("no model to open: the path is null");
    }
    // SAFETY: promised by the caller.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    match Model::open(&*path) {
        Ok(model) => CModel::boxed(model),
        Err(error) => fail(error),
    }
}

/// Loads an artefact from memory; null on error. The bytes may be freed afterwards.
///
/// # Safety
/// `bytes` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_model_from_memory(bytes: *const u8, len: usize) -> *mut CModel {
    if bytes.is_null() {
        return fail("no model to load: the pointer is null");
    }
    // SAFETY: promised by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    match Model::from_bytes(bytes) {
        Ok(model) => CModel::boxed(model),
        Err(error) => fail(error),
    }
}

/// Frees a model; sessions made from it stay usable.
///
/// # Safety
/// `model` is null or comes from this interface, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_model_free(model: *mut CModel) {
    if !model.is_null() {
        // SAFETY: made by `Box::into_raw` and given up by the caller.
        drop(unsafe { Box::from_raw(model) });
    }
}

/// The number of inputs (`is_output` zero) or outputs.
///
/// # Safety
/// `model` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_model_ports(model: *const CModel, is_output: i32) -> usize {
    // SAFETY: promised by the caller.
    let Some(model) = (unsafe { model.as_ref() }) else { return 0 };
    if is_output != 0 { model.outputs.len() } else { model.inputs.len() }
}

/// The name of an input or output, valid as long as the model; null if there is none.
///
/// # Safety
/// `model` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_model_port_name(
    model: *const CModel,
    is_output: i32,
    index: usize,
) -> *const c_char {
    // SAFETY: promised by the caller.
    let Some(model) = (unsafe { model.as_ref() }) else { return std::ptr::null() };
    let names = if is_output != 0 { &model.outputs } else { &model.inputs };
    names.get(index).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// The number of axes of an input or output; its extents are written to `shape`, at most `capacity` of them.
///
/// # Safety
/// `model` is null or live; `shape` is null or has room for `capacity` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_model_port_shape(
    model: *const CModel,
    is_output: i32,
    index: usize,
    shape: *mut i64,
    capacity: usize,
) -> usize {
    // SAFETY: promised by the caller.
    let Some(model) = (unsafe { model.as_ref() }) else { return 0 };
    let Some(port) = model.port(is_output, index) else { return 0 };
    if !shape.is_null() {
        for (at, extent) in port.operand.shape.iter().take(capacity).enumerate() {
            // SAFETY: `at` is below `capacity`, for which the caller promises room.
            unsafe { *shape.add(at) = *extent as i64 };
        }
    }
    port.operand.shape.len()
}

/// The size in bytes of an input or output; 0 if there is none.
///
/// # Safety
/// `model` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_model_port_bytes(
    model: *const CModel,
    is_output: i32,
    index: usize,
) -> usize {
    // SAFETY: promised by the caller.
    let Some(model) = (unsafe { model.as_ref() }) else { return 0 };
    model.port(is_output, index).and_then(|port| port.operand.bytes()).unwrap_or(0) as usize
}

/// Memory and threads for a model; null on error. Zero threads mean one for each core.
///
/// # Safety
/// `model` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_session_create(model: *const CModel, threads: usize) -> *mut Session {
    // SAFETY: promised by the caller.
    let Some(model) = (unsafe { model.as_ref() }) else {
        return fail("no session without a model: the pointer is null");
    };
    let mut options = SessionOptions::default();
    if threads > 0 {
        options.threads = threads;
    }
    match Session::new(model.model.clone(), &options) {
        Ok(session) => Box::into_raw(Box::new(session)),
        Err(error) => fail(error),
    }
}

/// Frees a session.
///
/// # Safety
/// `session` is null or comes from [`talweg_session_create`], and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_session_free(session: *mut Session) {
    if !session.is_null() {
        // SAFETY: made by `Box::into_raw` and given up by the caller.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// The memory of an input, to be filled before a run; null if there is none.
///
/// # Safety
/// `session` is null or live, and not running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_session_input(session: *mut Session, index: usize) -> *mut u8 {
    // SAFETY: promised by the caller.
    match unsafe { session.as_mut() } {
        Some(session) if index < session.model().manifest().inputs.len() => {
            session.input_mut(index).as_mut_ptr()
        }
        _ => fail(format!("there is no input {index}")),
    }
}

/// The memory of an output, to be read after a run; null if there is none.
///
/// # Safety
/// `session` is null or live, and not running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_session_output(session: *const Session, index: usize) -> *const u8 {
    // SAFETY: promised by the caller.
    match unsafe { session.as_ref() } {
        Some(session) if index < session.model().manifest().outputs.len() => session.output(index).as_ptr(),
        _ => fail::<u8>(format!("there is no output {index}")),
    }
}

/// Runs the model on what the inputs' memory holds; 0 if it went well.
///
/// # Safety
/// `session` is null or live, and not running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_session_run(session: *mut Session) -> i32 {
    // SAFETY: promised by the caller.
    let Some(session) = (unsafe { session.as_mut() }) else {
        fail::<u8>("nothing to run: the session is null");
        return 1;
    };
    match session.execute() {
        Ok(()) => 0,
        Err(error) => {
            fail::<u8>(error);
            1
        }
    }
}
