//! Work on all cores with results that do not depend on how many there are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many threads to use; 0 stands for all cores.
pub(crate) fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
}

/// The results of `work` for `0..count`, in that order.
pub(crate) fn map<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    map_with(count, threads, || (), |(), place| work(place))
}

/// Like [`map`], with a workbench that each thread makes for itself.
pub(crate) fn map_with<B, T: Send>(
    count: usize,
    threads: usize,
    bench: impl Fn() -> B + Sync,
    work: impl Fn(&mut B, usize) -> T + Sync,
) -> Vec<T> {
    if threads <= 1 || count <= 1 {
        let mut bench = bench();
        return (0..count).map(|place| work(&mut bench, place)).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                let mut bench = bench();
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= count {
                        return;
                    }
                    let result = work(&mut bench, place);
                    done.lock().expect("no other thread failed").push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread failed");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}
