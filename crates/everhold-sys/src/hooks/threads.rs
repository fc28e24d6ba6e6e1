//! Threads: `pthread_*`, and the destructors of thread-local variables.

use std::ffi::{c_char, c_int, c_void};

use libc::{pthread_attr_t, pthread_key_t, pthread_t};

use crate::fiber::{Routine, at_exit, enter, is_simulated, stack_bounds};
use crate::hooks::{interpose, next};
use crate::own::own;
use crate::stack;

own! {
    /// Keys that hosts created in this execution.
    KEYS: Vec<Key> = Vec::new();
}

type KeyDestructor = unsafe extern "C" fn(*mut c_void);

#[derive(Clone, Copy)]
struct Key {
    number: pthread_key_t,
    destructor: Option<KeyDestructor>,
}

/// How often the values of a thread that ends are looked through, as POSIX has it.
const ROUNDS: usize = 4;

interpose! {
    fn sched_yield(kernel) -> c_int {
        kernel.yield_now();
        Ok(0)
    }
}

/// Functions that return their error numbers instead of setting them.
macro_rules! interpose_numbered {
    ($(fn $name:ident($kernel:ident $(, $argument:ident: $type:ty)*) $body:block)*) => { $(
        #[doc = concat!("`", stringify!($name), "`, as a host sees it.")]
        ///
        /// # Safety
        ///
        /// As for the C library's function.
        // SAFETY: has the type and the meaning of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            if !$crate::fiber::is_simulated() {
                let next = $crate::hooks::next!($name: unsafe extern "C" fn($($type),*) -> c_int);
                // SAFETY: the caller's own arguments, for the function that it called.
                return unsafe { next($($argument),*) };
            }
            $crate::fiber::enter(|$kernel| -> $crate::Answer<()> { $body }).err().unwrap_or(0)
        }
    )* };
}
pub(crate) use interpose_numbered;

interpose_numbered! {
    fn pthread_create(
        kernel,
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void
    ) {
        // SAFETY: the caller passes attributes, or null for the usual ones.
        let asked = unsafe { stack_size(attributes) };
        if asked > stack::SIZE {
            kernel.refused(&format!("pthread_create with a stack of {asked} bytes"));
            return Err(libc::EAGAIN);
        }
        let handle = kernel.spawn(Routine { start, argument: argument as usize })?;
        // SAFETY: the caller passes a place for the handle.
        unsafe { *thread = handle as pthread_t };
        Ok(())
    }
    fn pthread_join(kernel, thread: pthread_t, result: *mut *mut c_void) {
        let value = kernel.join(thread as usize)?;
        if !result.is_null() {
            // SAFETY: the caller passes a place for the result.
            unsafe { *result = value as *mut c_void };
        }
        Ok(())
    }
    fn pthread_detach(kernel, thread: pthread_t) {
        kernel.detach(thread as usize);
        Ok(())
    }
    fn pthread_setname_np(_kernel, _thread: pthread_t, _name: *const c_char) { Ok(()) }
}

/// The size of the stack that a program asks for; zero if it does not.
///
/// # Safety
///
/// The attributes must be valid, or null.
unsafe fn stack_size(attributes: *const pthread_attr_t) -> usize {
    let mut size = 0;
    if !attributes.is_null() {
        // SAFETY: see above; there is a place for the size.
        unsafe { libc::pthread_attr_getstacksize(attributes, &raw mut size) };
    }
    size
}

/// `pthread_getattr_np`: the calling fiber's stack.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(
    thread: pthread_t,
    attributes: *mut pthread_attr_t,
) -> c_int {
    if is_simulated() {
        let (lowest, size) = stack_bounds();
        // SAFETY: the caller passes a place for the attributes.
        return unsafe {
            libc::pthread_attr_init(attributes);
            libc::pthread_attr_setstack(attributes, lowest as *mut c_void, size)
        };
    }
    let next =
        next!(pthread_getattr_np: unsafe extern "C" fn(pthread_t, *mut pthread_attr_t) -> c_int);
    // SAFETY: the caller's own arguments.
    unsafe { next(thread, attributes) }
}

/// `__cxa_thread_atexit_impl`: destructors of thread-local variables run when the fiber ends.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_thread_atexit_impl(
    destructor: unsafe extern "C" fn(*mut u8),
    argument: *mut u8,
    library: *mut u8,
) -> c_int {
    if is_simulated() {
        enter(|_| at_exit(destructor, argument as usize));
        return 0;
    }
    let next = next!(__cxa_thread_atexit_impl: unsafe extern "C" fn(
        unsafe extern "C" fn(*mut u8),
        *mut u8,
        *mut u8
    ) -> c_int);
    // SAFETY: the caller's own arguments.
    unsafe { next(destructor, argument, library) }
}

/// `pthread_key_create`: the keys of hosts are deleted after the execution.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_create(
    key: *mut pthread_key_t,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    let next = next!(pthread_key_create: unsafe extern "C" fn(
        *mut pthread_key_t,
        Option<unsafe extern "C" fn(*mut c_void)>
    ) -> c_int);
    // SAFETY: the caller's own arguments.
    let result = unsafe { next(key, destructor) };
    if result == 0 && is_simulated() {
        // SAFETY: the key was just written; only this thread notes keys.
        enter(|_| unsafe { (&mut *KEYS.place()).push(Key { number: *key, destructor }) });
    }
    result
}

/// `pthread_key_delete`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_delete(key: pthread_key_t) -> c_int {
    if is_simulated() {
        // SAFETY: only this thread notes keys.
        enter(|_| unsafe { (&mut *KEYS.place()).retain(|known| known.number != key) });
    }
    let next = next!(pthread_key_delete: unsafe extern "C" fn(pthread_key_t) -> c_int);
    // SAFETY: the caller's own argument.
    unsafe { next(key) }
}

/// Runs the destructors of the values that the calling thread, which ends, has for keys.
pub(crate) fn destroy_values() {
    for _ in 0..ROUNDS {
        let mut again = false;
        let mut at = 0;
        // SAFETY: only this thread notes keys.
        while let Some(key) = enter(|_| unsafe { (&*KEYS.place()).get(at).copied() }) {
            at += 1;
            let Some(destructor) = key.destructor else { continue };
            // SAFETY: the key was created and not deleted. Threads of other hosts have no values
            // for it; the destructor takes the value, as its thread said.
            unsafe {
                let value = libc::pthread_getspecific(key.number);
                if !value.is_null() {
                    again = true;
                    libc::pthread_setspecific(key.number, std::ptr::null());
                    destructor(value);
                }
            }
        }
        if !again {
            return;
        }
    }
}

/// Deletes the keys that hosts created: each image of the statics creates its own, and there are
/// only 1,024.
pub(crate) fn delete_keys() {
    // SAFETY: only this thread notes keys, and no host runs.
    for key in unsafe { (&mut *KEYS.place()).drain(..) } {
        // SAFETY: the key was created and not deleted, and no host that knows it runs again.
        unsafe { libc::pthread_key_delete(key.number) };
    }
}
