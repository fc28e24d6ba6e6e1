//! A host as a node of the explorer.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use everhold_node::process::Waiting;
use everhold_node::{CrashModel, Handle, NodeId, Process, Tag, TaskId, Time, Timer};
use everhold_os::abi::open;
use everhold_os::{AT_FDCWD, Choices, Disk, Host, Reason, ThreadId};
use everhold_sys::{Fiber, Image, begin_execution};
use everhold_trace::Value;

use crate::body::{self, Body};
use crate::link::{Link, Places};
use crate::machine::{Exit, Machine};
use crate::operator::Control;
use crate::packet::Packet;
use crate::shown::Shown;

/// The description of a host, before it runs.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) body: Body,
    pub(crate) is_client: bool,
    pub(crate) places: Rc<Places>,
    /// How much a crash takes from the disk; `None` if the host never crashes.
    pub(crate) crashes: Option<CrashModel>,
    /// Files that are there from the beginning, by their paths.
    pub(crate) files: Rc<Vec<(String, Vec<u8>)>>,
    /// Variables of its environment.
    pub(crate) environment: Rc<Vec<(String, String)>>,
    /// The largest difference of its time of day from that of the others.
    pub(crate) skew_max: Duration,
    /// The disk between two starts of the host.
    pub(crate) disk: Rc<RefCell<Option<Disk>>>,
}

/// Writes the files of a new machine.
fn lay_out(os: &mut Host, name: &str, places: &Places, files: &[(String, Vec<u8>)]) {
    let hosts: String = places
        .by_name
        .iter()
        .flat_map(|(name, node)| {
            places.addresses[node.index()].iter().map(move |ip| format!("{ip} {name}\n"))
        })
        .collect();
    let usual = [
        ("/etc/hostname".to_owned(), format!("{name}\n").into_bytes()),
        ("/etc/hosts".to_owned(), format!("127.0.0.1 localhost\n{hosts}").into_bytes()),
    ];
    for directory in ["/tmp", "/var", "/var/lib", "/var/tmp", "/run", "/home"] {
        // It may be there.
        let _ = os.mkdirat(AT_FDCWD, directory.as_bytes(), 0o777);
    }
    for (path, contents) in usual.iter().chain(files) {
        for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
            let _ = os.mkdirat(AT_FDCWD, &path.as_bytes()[..at], 0o755);
        }
        let flags = open::O_CREAT | open::O_WRONLY | open::O_TRUNC;
        let written = os.openat(AT_FDCWD, path.as_bytes(), flags, 0o644).and_then(|file| {
            os.pwrite(file, contents, 0)?;
            os.close(file)
        });
        assert_eq!(written, Ok(()), "the file {path} of host {name} can be written");
    }
    os.sync();
}

pub(crate) struct HostProcess {
    plan: Plan,
    link: Link,
    /// While the host's machine is on.
    running: Option<Running>,
    /// How often an operator started the process again since the last crash.
    starts: u32,
    /// Whether the process starts again when it has ended.
    starts_again: bool,
}

struct Running {
    machine: Machine,
    image: Image,
    /// By the number of the thread.
    fibers: Vec<Option<Fiber>>,
    /// The deadline for which the timer is set.
    armed: Option<Time>,
    /// The state that the program shows, as properties see it.
    shown: Shown,
}

impl HostProcess {
    pub(crate) fn new(plan: Plan) -> Self {
        HostProcess { plan, link: Link::default(), running: None, starts: 0, starts_again: false }
    }

    fn boot(&mut self) {
        let Plan { name, places, crashes, disk, files, .. } = &self.plan;
        let link = self.link.clone();
        let machine = Machine::new(
            name,
            crashes.is_some(),
            link,
            Rc::clone(places),
            self.starts,
            self.plan.skew_max,
        );
        let before = disk.borrow_mut().take();
        match before {
            Some(disk) => machine.os.borrow_mut().insert_disk(disk),
            None => lay_out(&mut machine.os.borrow_mut(), name, places, files),
        }
        let body = Rc::clone(&self.plan.body);
        let main = Fiber::main(machine.number_of(ThreadId(0)) as u32, move || body::run(&body));
        machine.threads.borrow_mut().began(ThreadId(0), main.handle());
        let image = Image::fresh(&self.plan.environment);
        let shown = Shown::of(name);
        self.running =
            Some(Running { machine, image, fibers: vec![Some(main)], armed: None, shown });
    }

    /// The crash took what it may take from the disk.
    fn lose_unsynced(&self) {
        let mut disk = self.plan.disk.borrow_mut();
        let (Some(disk), Some(model)) = (&mut *disk, self.plan.crashes) else { return };
        let mut link = self.link.clone();
        let lost = disk.crash(model, &mut |label, domain| match domain {
            0 | 1 => 0,
            _ => link.choose(label, domain),
        });
        if !lost.units.is_empty() {
            self.link.note(|| format!("the crash lost {}", lost.units.join(", ")));
        }
    }

    /// Something happened at the host: its kernel does its part, and what follows leaves the host.
    fn event(&mut self, work: impl FnOnce(&mut Running)) {
        let Some(running) = &mut self.running else { return };
        let now = self.link.now();
        running.machine.os.borrow_mut().advance(now);
        work(running);
        running.settle(now);
        if let Some(exit) = running.machine.exited.take() {
            self.ended(exit);
        }
        if self.starts_again && self.running.as_ref().is_some_and(Running::has_ended) {
            self.start_again();
        }
    }

    /// An operator does something to the process.
    fn control(&mut self, control: Control) {
        match control {
            Control::Start => self.starts_again = true,
            Control::Signal(_) if self.running.as_ref().is_some_and(Running::has_ended) => {}
            Control::Signal(signal) => {
                self.event(|running| {
                    // Signals from outside have numbers that there are.
                    let _ = running.machine.os.borrow_mut().kill(signal);
                    running.machine.deliver_signals();
                    running.adopt();
                });
                return;
            }
        }
        self.event(|_| {});
    }

    /// The process starts again on the disk as it is.
    fn start_again(&mut self) {
        let running = self.running.take().expect("its machine is on");
        *self.plan.disk.borrow_mut() = Some(running.machine.os.borrow_mut().take_disk());
        self.starts_again = false;
        self.starts += 1;
        let now = self.link.now();
        self.boot();
        if let Some(running) = &mut self.running {
            running.machine.os.borrow_mut().advance(now);
            // The timer of the machine before is no deadline of this one.
            self.link.set_deadline(None);
        }
    }

    /// The process of the host ended. Its machine still closes its connections.
    fn ended(&mut self, exit: Exit) {
        let running = self.running.as_mut().expect("it ran");
        running.fibers.clear();
        everhold_sys::write_back(&running.machine, &running.image);
        running.machine.os.borrow_mut().close_all();
        running.settle(self.link.now());
        if let Exit::Code(code) = exit
            && code != 0
        {
            let name = &self.plan.name;
            let message = match running.machine.panic.take() {
                Some((message, place)) => format!("({name}) panicked at {place}: {message}"),
                None => format!("({name}) ended with the exit code {code}"),
            };
            self.link.fail("every program succeeds", message);
        }
        if let Exit::Fault(thread, what) = exit {
            let message =
                format!("({}) was ended by {what} in thread {}", self.plan.name, thread.0);
            self.link.fail("every program succeeds", message);
        }
        if self.plan.is_client {
            self.client_ended();
        }
    }

    /// After the last client nothing is left to see.
    fn client_ended(&self) {
        let places = &self.plan.places;
        places.clients_left.set(places.clients_left.get().saturating_sub(1));
        if places.clients_left.get() == 0 {
            for node in 0..places.addresses.len() {
                self.link.halt(NodeId(node as u32));
            }
        }
    }
}

impl Drop for HostProcess {
    /// A crash ends the machine and leaves its disk.
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            if !running.has_ended() {
                everhold_sys::write_back(&running.machine, &running.image);
            }
            *self.plan.disk.borrow_mut() = Some(running.machine.os.borrow_mut().take_disk());
        }
    }
}

impl Running {
    /// Runs a thread until it waits or lets others go first.
    fn run(&mut self, thread: ThreadId) {
        self.machine.running.set(thread);
        let Some(mut fiber) = self.fibers.get_mut(thread.0 as usize).and_then(Option::take) else {
            return;
        };
        everhold_sys::preempt_after(self.machine.gap());
        let ended = fiber.run(&self.machine, &mut self.image);
        if ended {
            self.machine.at_once(Host::exit_thread);
            let result = fiber.result().unwrap_or(0);
            self.machine.threads.borrow_mut().ended(thread, result);
        }
        self.fibers[thread.0 as usize] = Some(fiber);
        self.adopt();
    }

    /// Whether the process has ended.
    fn has_ended(&self) -> bool {
        self.fibers.is_empty()
    }

    /// Takes up threads that began, and drops those that nobody refers to any more.
    fn adopt(&mut self) {
        let mut threads = self.machine.threads.borrow_mut();
        for (thread, fiber) in threads.new.drain(..) {
            debug_assert_eq!(thread.0 as usize, self.fibers.len(), "threads are numbered in order");
            self.fibers.push(Some(fiber));
        }
        for thread in threads.forgotten.drain(..) {
            self.fibers[thread.0 as usize] = None;
        }
    }

    /// Sends what the kernel has to send, and sets the timer to its next deadline.
    fn settle(&mut self, now: Time) {
        let link = &self.machine.link;
        let mut os = self.machine.os.borrow_mut();
        for packet in os.take_packets() {
            if let Some(node) = self.machine.places.nodes.get(&packet.to.ip()) {
                link.send(*node, packet);
            }
        }
        os.take_woken();
        if self.machine.shows.replace(false) {
            self.shown = self.machine.shown.borrow().clone();
        }
        let next = os.next_deadline();
        if next != self.armed {
            self.armed = next;
            link.set_deadline(next.map(|next| next - now));
        }
    }

    /// The reasons for which the threads wait, if none of them can ever go on without an input.
    fn waits(&self) -> Option<String> {
        let os = self.machine.os.borrow();
        let waits: Vec<String> = (0..os.thread_count())
            .map(ThreadId)
            .filter_map(|thread| Some((thread, os.waiting(thread)?)))
            .map(|(thread, reason)| {
                let lost = match reason {
                    Reason::Futex(address) => self.machine.missed.borrow().get(address).copied(),
                    _ => None,
                };
                let waits = format!("thread {} waits for {reason}", thread.0);
                match lost.filter(|other| *other != thread) {
                    Some(other) => {
                        format!("{waits} (thread {} woke nobody there before)", other.0)
                    }
                    None => waits,
                }
            })
            .collect();
        (!waits.is_empty()).then(|| waits.join(", "))
    }

    /// Whether every thread waits for another one: then no input can help.
    fn is_locked(&self) -> bool {
        let os = self.machine.os.borrow();
        let reasons = (0..os.thread_count()).filter_map(|thread| os.waiting(ThreadId(thread)));
        let mut any = false;
        for reason in reasons {
            any = true;
            if !matches!(reason, Reason::Futex(_) | Reason::Join(_)) {
                return false;
            }
        }
        any && os.next_deadline().is_none() && os.runnable().next().is_none()
    }
}

impl Process<Packet> for HostProcess {
    fn start(&mut self, runtime: &Handle<Packet>, id: NodeId) {
        if id == NodeId(0) {
            begin_execution();
            self.plan.places.clients_left.set(self.plan.places.clients.get());
        }
        *self.plan.disk.borrow_mut() = None;
        self.link.connect(runtime, id);
        self.boot();
    }

    fn restart(&mut self, runtime: &Handle<Packet>, id: NodeId) {
        self.link.connect(runtime, id);
        self.lose_unsynced();
        self.boot();
    }

    fn message(&mut self, _: &Handle<Packet>, _: NodeId, _: NodeId, _: Tag, packet: Packet) {
        match packet {
            Packet::Segment(packet) | Packet::Datagram(packet) => {
                self.event(|running| running.machine.os.borrow_mut().deliver(packet));
            }
            Packet::Control(control) => self.control(control),
        }
    }

    fn timer(&mut self, _: &Handle<Packet>, _: NodeId, _: Timer) {
        self.event(|running| {
            if let Some(due) = running.armed.take() {
                running.machine.os.borrow_mut().advance(due);
            }
        });
    }

    fn disconnected(&mut self, _: &Handle<Packet>, _: NodeId, peer: NodeId) {
        let addresses = self.plan.places.addresses[peer.index()].clone();
        self.event(|running| {
            for address in addresses {
                running.machine.os.borrow_mut().peer_reset(address);
            }
        });
    }

    fn poll(&mut self, _: &Handle<Packet>, _: NodeId, task: TaskId) {
        self.event(|running| running.run(ThreadId(task.0)));
    }

    fn accepts(&self, _: NodeId, _: Tag, _: &Packet) -> bool {
        true
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn ready(&self, tasks: &mut Vec<TaskId>) {
        let Some(running) = &self.running else { return };
        if running.has_ended() {
            return;
        }
        tasks.extend(running.machine.os.borrow().runnable().map(|thread| TaskId(thread.0)));
    }

    fn has_tasks(&self) -> bool {
        true
    }

    fn waiting(&self) -> Option<Waiting> {
        let running = self.running.as_ref().filter(|running| !running.has_ended())?;
        let stuck = self.plan.is_client || running.is_locked();
        let what = stuck.then(|| running.waits()).flatten()?;
        Some(Waiting { what })
    }

    fn state(&self) -> Option<&dyn Any> {
        self.running.as_ref().map(|running| &running.shown as &dyn Any)
    }

    fn observe(&self) -> Value {
        if let Some(running) = &self.running
            && !running.shown.values().is_empty()
        {
            return Value::Record(running.shown.values().clone());
        }
        let threads =
            self.running.as_ref().map_or(0, |running| running.fibers.iter().flatten().count());
        Value::record([("threads".to_owned(), Value::of(&(threads as u64)))])
    }

    fn fingerprint(&self) -> Option<u64> {
        None
    }

    fn phase(&self, out: &mut String) {
        out.clear();
        out.push_str(if self.running.is_some() { "on" } else { "off" });
    }

    fn fork(&self) -> Option<Box<dyn Process<Packet>>> {
        None
    }

    fn copy_from(&mut self, _: &dyn Process<Packet>) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
