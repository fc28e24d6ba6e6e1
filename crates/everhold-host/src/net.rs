//! The description of the hosts of a test.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Termination;
use std::rc::Rc;
use std::time::Duration;

use everhold_node::{Blueprint, NodeId};
use everhold_os::Names;
use everhold_sim::{Answer, Channel, Clocks, FaultKind, Faults, Links, Network, System, View};

use crate::body::{self, Body};
use crate::link::Places;
use crate::packet::Packet;
use crate::process::{HostProcess, Plan};
use crate::run::Preemption;

/// The hosts of a test, their network and what should hold; see [`hosts`](crate::hosts).
pub struct Net<'a> {
    system: &'a mut System<Packet>,
    hosts: Vec<Described>,
    faults: Faults,
    delay_max: Duration,
    preemption: Preemption,
    /// Files of hosts: the name of the host, the path, and the contents.
    files: Vec<(String, String, Vec<u8>)>,
    /// Variables of hosts: the name of the host, that of the variable, and the value.
    variables: Vec<(String, String, String)>,
    skew_max: Duration,
    clocks: Clocks,
}

/// The longest delay of a message, unless a test sets another one.
const DELAY_MAX: Duration = Duration::from_millis(100);

struct Described {
    name: String,
    body: Body,
    is_client: bool,
}

impl fmt::Debug for Net<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        f.debug_struct("Net").field("hosts", &names).finish_non_exhaustive()
    }
}

impl<'a> Net<'a> {
    pub(crate) fn new(system: &'a mut System<Packet>, preemption: Preemption) -> Self {
        Net {
            system,
            preemption,
            hosts: Vec::new(),
            faults: Faults::none(),
            delay_max: DELAY_MAX,
            files: Vec::new(),
            variables: Vec::new(),
            skew_max: Duration::ZERO,
            clocks: Clocks::Shared,
        }
    }

    /// Adds a host that runs a program. Others reach it by its name; its `main` may run for ever.
    /// After a crash it starts again from the beginning.
    pub fn host<F, T>(&mut self, name: impl Into<String>, main: F)
    where
        F: Fn() -> T + Clone + Send + 'static,
        T: Termination,
    {
        self.add(name.into(), body::of(main), false);
    }

    /// Adds a host that plays a user. It never crashes; an execution in which it waits for ever is
    /// a finding, and an execution is over when all clients are done.
    pub fn client<F, T>(&mut self, name: impl Into<String>, main: F)
    where
        F: Fn() -> T + Clone + Send + 'static,
        T: Termination,
    {
        self.add(name.into(), body::of(main), true);
    }

    fn add(&mut self, name: String, body: Body, is_client: bool) {
        assert!(
            self.hosts.iter().all(|host| host.name != name),
            "two hosts are named \"{name}\"; give each host a name of its own"
        );
        self.hosts.push(Described { name, body, is_client });
    }

    /// Sets the faults that may occur. They strike hosts and not clients.
    pub fn faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Puts a file on the disk of a host before it starts, such as its configuration.
    pub fn file(&mut self, host: &str, path: &str, contents: impl Into<Vec<u8>>) {
        assert!(path.starts_with('/'), "the path \"{path}\" begins with a slash");
        self.files.push((host.to_owned(), path.to_owned(), contents.into()));
    }

    /// Sets a variable of the environment of a host. The others are those of the test.
    pub fn environment(&mut self, host: &str, name: &str, value: &str) {
        self.variables.push((host.to_owned(), name.to_owned(), value.to_owned()));
    }

    /// Lets the time of day of each host be ahead of the others or behind, by at most so much: a
    /// choice at each start of the host.
    pub fn clock_skew(&mut self, skew_max: Duration) {
        self.skew_max = skew_max;
    }

    /// Lets the clocks of hosts run too fast or too slow, by at most so many parts in a million.
    pub fn clock_drift(&mut self, max_ppm: u32) {
        self.clocks = Clocks::Drift { max_ppm };
    }

    /// Sets the longest time for which a message is under way, or a thread waits for a processor,
    /// while nothing cuts them off; 100 ms if it is not set. With a delay that is longer than the
    /// timeouts of a program, its failure detectors suspect hosts that are well.
    pub fn delay_max(&mut self, delay_max: Duration) {
        self.delay_max = delay_max;
    }

    /// Adds a property of every state; see [`System::always`].
    pub fn always<A: Answer>(
        &mut self,
        name: &str,
        holds: impl Fn(&View<'_, Packet>) -> A + 'static,
    ) {
        self.system.always(name, holds);
    }

    /// Adds a goal that some execution should reach; see [`System::sometimes`].
    pub fn sometimes(&mut self, name: &str, reached: impl Fn(&View<'_, Packet>) -> bool + 'static) {
        self.system.sometimes(name, reached);
    }

    /// Adds a state that every execution reaches before the last client ends; see
    /// [`System::eventually`].
    pub fn eventually(
        &mut self,
        name: &str,
        reached: impl Fn(&View<'_, Packet>) -> bool + 'static,
    ) {
        self.system.eventually(name, reached);
    }

    /// Adds properties in the language, as text, over what hosts show; see [`System::property`].
    ///
    /// # Panics
    ///
    /// If the text has errors.
    #[track_caller]
    pub fn property(&mut self, text: &str) {
        self.system.property(text);
    }

    /// The description is complete.
    pub(crate) fn finish(mut self) {
        let files = self.files.iter().map(|(host, ..)| host);
        let variables = self.variables.iter().map(|(host, ..)| host);
        for host in files.chain(variables) {
            assert!(
                self.hosts.iter().any(|known| known.name == *host),
                "a file or a variable is for the host \"{host}\", which there is not"
            );
        }
        let places = Rc::new(places(&self.hosts, self.preemption));
        if self.faults.kinds.is_empty() {
            let struck = self.hosts.iter().filter(|host| !host.is_client);
            self.faults.kinds = struck.map(|host| host.name.clone()).collect();
        }
        for Described { name, body, is_client } in self.hosts {
            let crashes = !is_client && self.faults.crashes > 0;
            let of_host = |(host, ..): &&(String, String, Vec<u8>)| *host == name;
            let contents =
                |(_, path, bytes): &(String, String, Vec<u8>)| (path.clone(), bytes.clone());
            let variable = |(host, variable, value): &(String, String, String)| {
                (*host == name).then(|| (variable.clone(), value.clone()))
            };
            let plan = Plan {
                name: name.clone(),
                body,
                is_client,
                places: Rc::clone(&places),
                crashes: crashes.then_some(self.faults.crash_model),
                files: Rc::new(self.files.iter().filter(of_host).map(contents).collect()),
                environment: Rc::new(self.variables.iter().filter_map(variable).collect()),
                skew_max: self.skew_max,
                disk: Rc::default(),
            };
            let make = move || -> Box<dyn everhold_node::Process<Packet>> {
                Box::new(HostProcess::new(plan.clone()))
            };
            self.system.process(&name, Blueprint::made_of(make));
        }
        self.system.faults(self.faults);
        self.system.network(Network::Streams);
        self.system.links(links());
        self.system.clocks(self.clocks);
        self.system.patience(self.delay_max);
    }
}

/// TCP loses and repeats nothing, since what it sends again arrives in the end; datagrams are lost.
fn links() -> Links {
    let lossless = [FaultKind::Lose, FaultKind::Duplicate];
    let control = Channel::fifo().reliable().without([FaultKind::Partition, FaultKind::OneWay]);
    Links::new()
        .of("Segment", Channel::streams().without(lossless))
        .of("Datagram", Channel::datagrams())
        .of("Control", control)
}

fn places(hosts: &[Described], preemption: Preemption) -> Places {
    let addresses: Vec<Vec<IpAddr>> = (1..=hosts.len()).map(addresses_of).collect();
    let nodes = addresses.iter().enumerate();
    let nodes = nodes.flat_map(|(at, all)| all.iter().map(move |ip| (*ip, NodeId(at as u32))));
    let names = hosts.iter().zip(&addresses).map(|(host, all)| (host.name.clone(), all.clone()));
    let clients = hosts.iter().filter(|host| host.is_client).count() as u32;
    let by_name = hosts.iter().enumerate();
    let by_name = by_name.map(|(at, host)| (host.name.clone(), NodeId(at as u32)));
    Places {
        preemption,
        by_name: by_name.collect(),
        nodes: nodes.collect::<BTreeMap<_, _>>(),
        names: Names::new(names),
        addresses,
        clients: clients.into(),
        clients_left: clients.into(),
    }
}

/// The addresses of the host with this number: 10.0.0.1 and fd00::1 are the first.
fn addresses_of(number: usize) -> Vec<IpAddr> {
    let number = number as u16;
    let [high, low] = number.to_be_bytes();
    let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number);
    vec![Ipv4Addr::new(10, 0, high, low).into(), v6.into()]
}
