//! The program of the guide, repaired: correct, slow at times, and wrong again when it is careless.

use everhold::System;
use everhold::live::host::{Codec, Config, Host};
use everhold::perf::Perf;
use everhold::prelude::*;
use everhold::property::parse;
use everhold::timed::{Durations, Timed};

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Msg {
    Get,
    Value(u32),
    Swap { old: u32, new: u32 },
    Done,
    Refused,
}

#[derive(Clone, Default, Serialize)]
struct Register {
    value: u32,
    swaps: u32,
    #[serde(skip)]
    careless: bool,
}

impl Node for Register {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Get => cx.reply(Msg::Value(self.value)),
            Msg::Swap { old, .. } if old != self.value && !self.careless => cx.reply(Msg::Refused),
            Msg::Swap { new, .. } => {
                self.value = new;
                self.swaps += 1;
                cx.reply(Msg::Done);
            }
            other => cx.unexpected(other),
        }
    }
}

#[derive(Clone, Serialize)]
struct Adder {
    register: NodeId,
    #[serde(skip)]
    begins: Duration,
    added: u32,
    left: u32,
}

impl Adder {
    fn new(number: u32, left: u32) -> Adder {
        let begins = Duration::from_micros(2_700) * number;
        Adder { register: NodeId(0), begins, added: 0, left }
    }
}

impl Node for Adder {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("begin", self.begins);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Value(old) => cx.send(self.register, Msg::Swap { old, new: old + 1 }),
            Msg::Refused => cx.set_timer("retry", Duration::from_millis(500)),
            Msg::Done => {
                self.added += 1;
                self.left -= 1;
                if self.left > 0 {
                    cx.send(self.register, Msg::Get);
                }
            }
            other => cx.unexpected(other),
        }
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.send(self.register, Msg::Get);
    }
}

fn counter(system: &mut System<Msg>, left: u32) {
    system.node("register", Register::default());
    system.nodes("adder", 3, |number| Adder::new(number as u32, left));
}

#[test]
fn additions_add_up() {
    explore(|system| {
        counter(system, 4);
        system.property(include_str!("../counter.prop"));
        system.sometimes("all is added", |s| s.all::<Register>().any(|(_, r)| r.value == 12));
    })
    .assert_holds();
}

#[test]
fn inferred_properties_are_attacked() {
    let text = std::fs::read_to_string("inferred.prop").expect("infer wrote it");
    let candidates = parse(&text).into_result().expect("it is the property language");
    let attack = Explorer::new().executions(2_000).attack(&candidates, |system| counter(system, 4));
    println!("{attack}");
}

#[test]
fn additions_are_fast() {
    let timed = Timed::new(|system| counter(system, 1))
        .durations(Durations::uniform(Duration::from_micros(20), Duration::from_micros(200)))
        .stop_when_each(|adder: &Adder| adder.left == 0);
    Perf::new(timed).executions(200).run().assert_fast();
}

#[test]
fn on_real_sockets() {
    let config = Config::read("counter.json".as_ref()).expect("the guide has it");
    let mut host = Host::new(config, Codec::postcard())
        .node(NodeId(0), "register", || Register { careless: true, ..Register::default() });
    for id in 1..4 {
        host = host.node(NodeId(id), "adder", || Adder::new(0, 400));
    }
    let running = host.start().expect("the ports are free");
    std::thread::sleep(Duration::from_secs(3));
    running.stop().expect("no node failed");
}
