//! The environment of each host: the C library's own variable leads to it while the host runs.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;

use crate::fiber::{enter, is_simulated};
use crate::hooks::{interpose, next};
use crate::statics;

unsafe extern "C" {
    /// The C library's variable.
    static mut environ: *mut *mut c_char;
}

/// The variables of one host.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// The place of each variable among the texts.
    places: BTreeMap<Vec<u8>, usize>,
    /// `NAME=value`; what was replaced stays, because the program may still refer to it.
    texts: Vec<CString>,
    /// The array to which `environ` points, with a null at the end.
    pointers: Vec<*mut c_char>,
}

impl Environment {
    /// The environment of the test, with changes.
    pub(crate) fn new(changes: &[(String, String)]) -> Environment {
        let mut environment = Environment::default();
        for (name, value) in std::env::vars_os() {
            environment.set(name.as_encoded_bytes(), value.as_encoded_bytes());
        }
        for (name, value) in changes {
            environment.set(name.as_bytes(), value.as_bytes());
        }
        environment.point();
        environment
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let text = [name, b"=", value].concat();
        // A text of the C library has no zero in it.
        let Ok(text) = CString::new(text) else { return };
        self.texts.push(text);
        self.places.insert(name.to_vec(), self.texts.len() - 1);
    }

    fn point(&mut self) {
        let texts = self.places.values().map(|at| self.texts[*at].as_ptr().cast_mut());
        self.pointers = texts.chain([null_mut()]).collect();
    }

    /// Puts it in place; returns what was there.
    pub(crate) fn load(&mut self) -> *mut *mut c_char {
        // SAFETY: the C library reads the variable only in calls of the one thread that runs.
        unsafe { std::ptr::replace(&raw mut environ, self.pointers.as_mut_ptr()) }
    }
}

/// Puts the explorer's environment back.
pub(crate) fn load_base(before: *mut *mut c_char) {
    // SAFETY: as in `load`.
    unsafe { environ = before };
}

/// Changes the environment of the host that runs.
fn change(work: impl FnOnce(&mut Environment)) {
    statics::with_environment(|environment| {
        work(environment);
        environment.point();
        environment.load();
    });
}

/// # Safety
///
/// `at` must be a text that ends with a zero.
unsafe fn text<'a>(at: *const c_char) -> &'a [u8] {
    // SAFETY: see above.
    unsafe { CStr::from_ptr(at) }.to_bytes()
}

interpose! {
    fn setenv(_kernel, name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int {
        // SAFETY: the caller passes two texts.
        let (name, value) = unsafe { (text(name), text(value)) };
        if name.is_empty() || name.contains(&b'=') {
            return Err(libc::EINVAL);
        }
        change(|environment| {
            if overwrite != 0 || !environment.places.contains_key(name) {
                environment.set(name, value);
            }
        });
        Ok(0)
    }
    fn unsetenv(_kernel, name: *const c_char) -> c_int {
        // SAFETY: the caller passes a text.
        let name = unsafe { text(name) };
        if name.is_empty() || name.contains(&b'=') {
            return Err(libc::EINVAL);
        }
        change(|environment| {
            environment.places.remove(name);
        });
        Ok(0)
    }
    fn clearenv(_kernel) -> c_int {
        change(|environment| environment.places.clear());
        Ok(0)
    }
}

/// `putenv`: the text is copied.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn putenv(assignment: *mut c_char) -> c_int {
    if !is_simulated() {
        let next = next!(putenv: unsafe extern "C" fn(*mut c_char) -> c_int);
        // SAFETY: the caller's own argument.
        return unsafe { next(assignment) };
    }
    // SAFETY: the caller passes a text.
    let assignment = unsafe { text(assignment) };
    let mut parts = assignment.splitn(2, |byte| *byte == b'=');
    let (name, value) = (parts.next().unwrap_or_default(), parts.next());
    enter(|_| {
        change(|environment| match value {
            Some(value) => environment.set(name, value),
            None => {
                environment.places.remove(name);
            }
        });
    });
    0
}
