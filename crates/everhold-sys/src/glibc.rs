//! Thread control blocks of the GNU C library, and the test that it is one that we know.

use std::ffi::{CStr, c_void};

use crate::own::own;
use crate::raw::{self, thread_pointer};

own! {
    GLIBC: Option<Glibc> = None;
}

type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Deallocate = unsafe extern "C" fn(*mut c_void, bool);

/// The private functions of the C library that make thread control blocks.
#[derive(Clone, Copy)]
pub(crate) struct Glibc {
    allocate: Allocate,
    deallocate: Deallocate,
    init_ctype: unsafe extern "C" fn(),
    /// The place of the thread's number in its control block.
    number_at: usize,
    /// The place of the list of the robust locks that the thread holds.
    robust_at: usize,
    /// The distance from such a lock's place in the list to its word.
    robust_distance: usize,
}

/// Fields of the control block, which the interface between compilers and libraries fixes.
const SELF: usize = 0x10;
const IS_MULTIPLE: usize = 0x18;
const STACK_GUARD: usize = 0x28;
const POINTER_GUARD: usize = 0x30;

/// The bit of `AT_HWCAP2` that says that programs may set the thread pointer.
const FSGSBASE: u64 = 1 << 1;

impl Glibc {
    /// # Panics
    ///
    /// If [`check`](Glibc::check) was not called.
    pub(crate) fn get() -> Glibc {
        GLIBC.get().expect("the machinery was checked")
    }

    /// Finds the private functions and compares the library's description of itself with the live
    /// thread.
    pub(crate) fn check() -> Result<(), String> {
        if GLIBC.get().is_some() {
            return Ok(());
        }
        // SAFETY: reads a number.
        if unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE == 0 {
            return Err("this kernel or processor does not let programs set the thread pointer \
                        (FSGSBASE); a kernel from 5.9 on does"
                .to_owned());
        }
        let glibc = Glibc::find()?;
        glibc.try_block()?;
        GLIBC.set(Some(glibc));
        Ok(())
    }

    fn find() -> Result<Glibc, String> {
        let number = described(c"_thread_db_pthread_tid")?;
        let vector = described(c"_thread_db_pthread_dtvp")?;
        let here = thread_pointer();
        // SAFETY: gets a number, without arguments.
        let own = unsafe { raw::call(libc::SYS_gettid, [0; 6]) };
        let place = number[2] as usize;
        // SAFETY: the library says that the number lies there, in the live block.
        if i64::from(unsafe { *((here + place) as *const u32) }) != own {
            return Err(format!("the thread's number is not at {place:#x} of its control block"));
        }
        // SAFETY: the first word of a control block is its own address.
        if vector[2] != 8 || unsafe { *(here as *const usize) } != here {
            return Err("the thread control block has another layout".to_owned());
        }
        let (robust_at, robust_distance) = robust_list(here)?;
        // SAFETY: the three functions have had these types since version 2.3 of the library.
        unsafe {
            Ok(Glibc {
                allocate: std::mem::transmute::<usize, Allocate>(symbol(c"_dl_allocate_tls")?),
                deallocate: std::mem::transmute::<usize, Deallocate>(symbol(
                    c"_dl_deallocate_tls",
                )?),
                init_ctype: std::mem::transmute::<usize, unsafe extern "C" fn()>(symbol(
                    c"__ctype_init",
                )?),
                number_at: place,
                robust_at,
                robust_distance,
            })
        }
    }

    fn try_block(self) -> Result<(), String> {
        let block = self.new_block(7);
        // SAFETY: the block was just made.
        let number = unsafe { *((block + self.number_at) as *const u32) };
        self.free_block(block);
        if number == 7 { Ok(()) } else { Err("a new control block has another layout".to_owned()) }
    }

    /// A new thread control block, with the initial values of all thread-local variables.
    pub(crate) fn new_block(self, number: u32) -> usize {
        let here = thread_pointer();
        // SAFETY: null asks for a new block; the fields lie within it, as `check` has seen.
        unsafe {
            let block = (self.allocate)(std::ptr::null_mut()) as usize;
            assert_ne!(block, 0, "there is memory for a thread control block");
            *(block as *mut usize) = block;
            *((block + SELF) as *mut usize) = block;
            *((block + IS_MULTIPLE) as *mut u32) = 1;
            for field in [STACK_GUARD, POINTER_GUARD] {
                *((block + field) as *mut usize) = *((here + field) as *const usize);
            }
            *((block + self.number_at) as *mut u32) = number;
            // An empty list: its head leads to itself, in both directions.
            let head = block + self.robust_at;
            for (at, word) in
                [(head - 8, head), (head, head), (head + 8, self.robust_distance), (head + 16, 0)]
            {
                *(at as *mut usize) = word;
            }
            block
        }
    }

    pub(crate) fn free_block(self, block: usize) {
        // SAFETY: the block was made by `new_block` and is in use no longer.
        unsafe { (self.deallocate)(block as *mut c_void, true) }
    }

    /// Does the first work of the C library on a new thread.
    pub(crate) fn init_thread(self) {
        // SAFETY: sets thread-local tables of the present thread.
        unsafe { (self.init_ctype)() }
    }
}

/// The place of the list of robust locks in the live control block, and the distance from an entry to
/// its lock. Before the head of the list is the way back.
fn robust_list(here: usize) -> Result<(usize, usize), String> {
    const BLOCK_MAX: usize = 1 << 12;
    const HEAD_LENGTH: usize = 24;
    let (mut head, mut length) = (0_usize, 0_usize);
    let places = [0, &raw mut head as i64, &raw mut length as i64, 0, 0, 0];
    // SAFETY: there are places for the answers.
    let failed = unsafe { raw::call(libc::SYS_get_robust_list, places) };
    let at = head.wrapping_sub(here);
    if failed != 0 || length != HEAD_LENGTH || at >= BLOCK_MAX {
        return Err("the list of robust locks is not in the thread control block".to_owned());
    }
    // SAFETY: the kernel was told that a list is there; its second word is the distance.
    Ok((at, unsafe { *((head + 8) as *const usize) }))
}

/// The address of a symbol of the C library.
fn symbol(name: &CStr) -> Result<usize, String> {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
    if found == 0 { Err(format!("this C library has no {name:?}")) } else { Ok(found) }
}

/// The library's description of a field, for debuggers: bits, number, offset.
fn described(name: &CStr) -> Result<[u32; 3], String> {
    // SAFETY: the symbol is an array of three numbers.
    symbol(name).map(|at| unsafe { *(at as *const [u32; 3]) })
}
