//! Connections that speak and do not read.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use everhold_watch::IntakeOptions;

use crate::engine::{LOCKS, LONG, Probe, folder, hello, next_violation, start};

/// The thread that writes the log also acknowledges: it must not wait for somebody who does not read.
#[test]
fn whoever_does_not_read_is_cut_off_and_keeps_nobody_waiting() {
    let running = start(&folder("deaf"), IntakeOptions::default());
    running.watch.set_rules(LOCKS, "rules.prop").unwrap();
    let address = running.intake.address();
    let mut deaf = Probe::connect(address, hello(9, 1)).expect("it is let in");
    let mut probes = [0, 1].map(|node| Probe::connect(address, hello(node, 1)).unwrap());
    deaf.speak_on();
    let end = Instant::now() + LONG;
    while running.intake.counts().connections.load(Relaxed) > 2 {
        assert!(Instant::now() < end, "it is still connected");
        probes.iter_mut().for_each(Probe::beat);
        std::thread::sleep(Duration::from_millis(20));
    }
    probes.iter_mut().for_each(|probe| probe.add(7, "exclusive"));
    assert_eq!(next_violation(&running, &mut probes, LONG).as_deref(), Some("one holder 7"));
    let troubles = running.troubles.lock().unwrap();
    assert!(troubles.iter().any(|text| text.contains("cut off")), "{troubles:?}");
}
