//! Membership by gossip: chitchat over UDP, with crashes and lost datagrams.

mod common;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::members::{Generation, main_with, observe};

const INSTANCES: [&str; 2] = ["web-0", "web-1"];

fn members(net: &mut Net<'_>, generation: Generation, faults: Faults) {
    for name in INSTANCES {
        net.host(name, move || main_with(name, INSTANCES[0], generation));
    }
    net.client("observer", || observe("observer", &INSTANCES));
    net.faults(faults);
}

#[test]
fn everybody_hears_of_every_start() {
    let faults = || Faults::none().crash(1).lose(3);
    silent("members", 20, move |net| members(net, Generation::OfTheStart, faults()));
}

#[test]
fn a_start_that_looks_like_an_earlier_one_is_never_heard_of() {
    let faults = || Faults::none().crash(1);
    found("members, same generation", "do not come", 500, move |net| {
        members(net, Generation::Same, faults());
    });
}
