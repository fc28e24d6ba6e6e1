//! The functions of the C library that are replaced. Each asks the kernel of the host whose fiber
//! calls it, and is the C library's own for everybody else.

pub(crate) mod calls;
pub(crate) mod directories;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod host;
pub(crate) mod names;
pub(crate) mod net;
pub(crate) mod numbers;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod streams;
pub(crate) mod threads;
pub(crate) mod time;

use crate::kernel::Answer;

/// Sets the error number of the calling thread.
///
/// Never inlined: the place of the number belongs to the thread control block of the moment.
#[inline(never)]
pub(crate) fn set_errno(number: i32) {
    // SAFETY: the C library returns the place of the calling thread's own number.
    unsafe { *libc::__errno_location() = number }
}

/// An answer in the form of the C library: -1 and an error number, or the value.
#[inline]
pub(crate) fn answer(result: Answer<i64>) -> i64 {
    result.unwrap_or_else(|number| {
        set_errno(number);
        -1
    })
}

/// The C library's own function of this name.
macro_rules! next {
    ($name:ident: $type:ty) => {{
        $crate::own::own! { FOUND: usize = 0; }
        let mut found = FOUND.get();
        if found == 0 {
            let name = concat!(stringify!($name), "\0");
            // SAFETY: the name ends with a zero.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) } as usize;
            assert_ne!(found, 0, "this C library has no {}; it is too old", stringify!($name));
            FOUND.set(found);
        }
        // SAFETY: the C library's function of this name has this type.
        unsafe { std::mem::transmute::<usize, $type>(found) }
    }};
}
pub(crate) use next;

/// Declares functions that replace those of the C library: what the kernel does, given the
/// function's arguments. The result of the kernel becomes a value or -1 with an error number.
macro_rules! interpose {
    ($(fn $name:ident($kernel:ident $(, $argument:ident: $type:ty)*) -> $result:ty $body:block)*) => { $(
        #[doc = concat!("`", stringify!($name), "`, as a host sees it.")]
        ///
        /// # Safety
        ///
        /// As for the C library's function.
        // SAFETY: has the type and the meaning of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            if !$crate::fiber::is_simulated() {
                let next = $crate::hooks::next!($name: unsafe extern "C" fn($($type),*) -> $result);
                // SAFETY: the caller's own arguments, for the function that it called.
                return unsafe { next($($argument),*) };
            }
            let result = $crate::fiber::enter(|$kernel| -> $crate::kernel::Answer<i64> { $body });
            $crate::hooks::answer(result) as $result
        }
    )* };
}
pub(crate) use interpose;

/// A part of the caller's memory, to be read.
///
/// # Safety
///
/// The caller of the C function promised that the memory is valid, or that the length is zero.
pub(crate) unsafe fn bytes<'a>(at: *const libc::c_void, length: usize) -> &'a [u8] {
    if at.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: see above.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

/// A part of the caller's memory, to be written.
///
/// # Safety
///
/// As for [`bytes`], and the memory is the caller's own.
pub(crate) unsafe fn bytes_mut<'a>(at: *mut libc::c_void, length: usize) -> &'a mut [u8] {
    if at.is_null() || length == 0 {
        return &mut [];
    }
    // SAFETY: see above.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), length) }
}
