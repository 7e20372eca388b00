//! The C interface, declared in `include/talweg_runtime.h`.
//!
//! Functions that can fail return null and leave a text for [`talweg_last_error`]. Null handles are accepted
//! everywhere and do nothing.

use crate::abi::{BodyFn, Parallel};
use crate::object_loader::LoadedObject;
use crate::pool::ThreadPool;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt::Display;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Keeps the error's text for this thread and returns null.
pub(crate) fn fail<T>(error: impl Display) -> *mut T {
    let text: Vec<u8> = error.to_string().into_bytes().into_iter().filter(|&byte| byte != 0).collect();
    LAST_ERROR.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    std::ptr::null_mut()
}

/// The text of the last error of a talweg function on this thread; empty if there was none. Valid until the next
/// error on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn talweg_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// A pool of `threads` threads, the caller of `talweg_pool_run` included; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn talweg_pool_create(threads: usize) -> *mut ThreadPool {
    match ThreadPool::new(threads) {
        Ok(pool) => Box::into_raw(Box::new(pool)),
        Err(error) => fail(error),
    }
}

/// Joins the threads of a pool and frees it.
///
/// # Safety
/// `pool` is null or comes from [`talweg_pool_create`], and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_pool_destroy(pool: *mut ThreadPool) {
    if !pool.is_null() {
        // SAFETY: made by `Box::into_raw` and given up by the caller.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// The number of threads of a pool; 0 for null.
///
/// # Safety
/// `pool` is null or a live pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_pool_threads(pool: *const ThreadPool) -> usize {
    // SAFETY: promised by the caller.
    unsafe { pool.as_ref() }.map_or(0, ThreadPool::threads)
}

/// The table to pass to kernels, valid as long as the pool; null for null.
///
/// # Safety
/// `pool` is null or a live pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_pool_parallel(pool: *const ThreadPool) -> *const Parallel {
    // SAFETY: promised by the caller.
    unsafe { pool.as_ref() }.map_or(std::ptr::null(), |pool| std::ptr::from_ref(pool.parallel()))
}

/// Runs `body` over `0..n` on the pool and returns when it is done.
///
/// # Safety
/// `pool` is null or a live pool; `body` may be called with `closure` from any thread, and does not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_pool_run(
    pool: *const ThreadPool,
    body: Option<BodyFn>,
    closure: *mut c_void,
    n: i64,
) {
    // SAFETY: promised by the caller.
    if let (Some(pool), Some(body)) = (unsafe { pool.as_ref() }, body) {
        let table = pool.parallel();
        // SAFETY: promised by the caller.
        unsafe { (table.run)(table.ctx, body, closure, n) };
    }
}

/// Loads an ELF object of `len` bytes, which may be freed afterwards; null on error.
///
/// # Safety
/// `bytes` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_object_load(bytes: *const u8, len: usize) -> *mut LoadedObject {
    if bytes.is_null() {
        return fail("no object to load: the pointer is null; pass the bytes of an ELF object");
    }
    // SAFETY: promised by the caller.
    match LoadedObject::load(unsafe { std::slice::from_raw_parts(bytes, len) }) {
        Ok(object) => Box::into_raw(Box::new(object)),
        Err(error) => fail(error),
    }
}

/// Unmaps an object; its functions must not be running or be called again.
///
/// # Safety
/// `object` is null or comes from [`talweg_object_load`], and neither it nor its symbols are used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_object_free(object: *mut LoadedObject) {
    if !object.is_null() {
        // SAFETY: made by `Box::into_raw` and given up by the caller.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// The address of a symbol, to be cast to `talweg_kernel` for a kernel; null, with an error, if there is none.
///
/// # Safety
/// `object` is null or a live object, `name` null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talweg_object_symbol(
    object: *const LoadedObject,
    name: *const c_char,
) -> *const c_void {
    // SAFETY: promised by the caller.
    let Some(object) = (unsafe { object.as_ref() }).filter(|_| !name.is_null()) else {
        return fail("no symbol to look up: the object or the name is null; pass a loaded object and a name");
    };
    // SAFETY: promised by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    match object.symbol(&name) {
        Some(address) => address.cast(),
        None => fail(format!("the object has no symbol `{name}`; check the kernel's name")),
    }
}
