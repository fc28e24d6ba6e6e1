//! Clients that repeat requests until they are answered: `while cx.timeout(..).await.is_err() {}`.
//!
//! Such loops make executions long, with many rounds that do not matter, which shrinking must
//! recognise. Each bug is typical of real services of this shape.

use std::collections::BTreeSet;
use std::time::Duration;

use everhold::node::{AsyncCx, NodeId};
use everhold::{Faults, System};
use serde::{Deserialize, Serialize};

/// The known bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// No bug.
    None,
    /// After a crash the server remembers only the last few requests that it carried out.
    ForgetsInCrash,
    /// The server remembers the last few requests of all clients together.
    RemembersFew,
    /// Numbers of requests have three bits, and the server remembers the last one of each client.
    NumbersWrap,
    /// A client that gives up releases the lock, and the server does not check who holds it.
    ReleasesForOthers,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 4] =
        [Bug::ForgetsInCrash, Bug::RemembersFew, Bug::NumbersWrap, Bug::ReleasesForOthers];
}

/// The time that a client waits for an answer.
const PATIENCE: Duration = Duration::from_millis(100);
/// The time that a client tries to get the lock before it gives up for the moment.
const LONG_PATIENCE: Duration = Duration::from_millis(350);
/// The number of requests of each client.
const REQUESTS: u32 = 40;
/// The number of requests that a server with too small a memory remembers.
const FEW: usize = 5;
/// The number of different request numbers with [`Bug::NumbersWrap`].
const NUMBERS: u32 = 8;

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Msg {
    /// Carry this request out, once.
    Do(Request),
    /// The request is carried out.
    Done,
    /// A request for the lock.
    Acquire,
    /// Whether the lock was granted.
    Granted(bool),
    /// I no longer need the lock.
    Release,
}

/// A client, and the number of its request.
pub type Request = (NodeId, u32);

/// The observed state of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Server {
    /// The requests that it carried out, in order.
    pub done: Vec<Request>,
    /// The requests that it remembers.
    known: Vec<Request>,
    holder: Option<NodeId>,
}

/// The observed state of a client of the lock.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Holds(pub bool);

/// The property that a request is carried out at most once.
pub const ONCE: &str = "nothing is done twice";
/// The property that two clients never hold the lock at the same time.
pub const EXCLUSIVE: &str = "one holder";

impl Server {
    fn carry_out(&mut self, request: Request, bug: Bug) {
        if self.is_known(request, bug) {
            return;
        }
        self.done.push(request);
        self.known.push(request);
        if bug == Bug::RemembersFew {
            self.keep_few();
        }
    }

    fn is_known(&self, (client, number): Request, bug: Bug) -> bool {
        let mut known = self.known.iter().rev();
        match bug {
            Bug::NumbersWrap => known
                .find(|known| known.0 == client)
                .is_some_and(|last| !is_after(number % NUMBERS, last.1 % NUMBERS)),
            _ => known.any(|known| *known == (client, number)),
        }
    }

    fn keep_few(&mut self) {
        self.known.drain(..self.known.len().saturating_sub(FEW));
    }

    fn acquire(&mut self, client: NodeId) -> bool {
        *self.holder.get_or_insert(client) == client
    }

    fn release(&mut self, client: NodeId, bug: Bug) {
        if bug == Bug::ReleasesForOthers || self.holder == Some(client) {
            self.holder = None;
        }
    }
}

/// Whether a number that wraps around at [`NUMBERS`] comes after another one.
fn is_after(number: u32, last: u32) -> bool {
    let distance = (number + NUMBERS - last) % NUMBERS;
    (1..=NUMBERS / 2).contains(&distance)
}

/// Answers requests for ever.
async fn serve(cx: AsyncCx<Msg>, bug: Bug) {
    let saved = cx.disk(|disk| disk.load("server"));
    let mut server: Server = saved.expect("what was saved can be read").unwrap_or_default();
    if bug == Bug::ForgetsInCrash {
        server.keep_few();
    }
    loop {
        cx.observe(server.clone());
        let received = cx.recv().await;
        match received.msg {
            Msg::Do(request) => {
                server.carry_out(request, bug);
                cx.disk(|disk| {
                    disk.save("server", &server);
                    disk.sync();
                });
                cx.reply(&received, Msg::Done);
            }
            Msg::Acquire => cx.reply(&received, Msg::Granted(server.acquire(received.from))),
            Msg::Release => server.release(received.from, bug),
            Msg::Done | Msg::Granted(_) => cx.unexpected(&received.msg),
        }
    }
}

/// Has requests carried out one after the other, by each server in turn.
async fn ask(cx: AsyncCx<Msg>, servers: u32) {
    for number in 0..REQUESTS {
        let server = NodeId(number % servers);
        let request = Msg::Do((cx.id(), number / servers));
        while cx.timeout(PATIENCE, cx.call(server, request.clone())).await.is_err() {}
    }
}

/// Takes the lock and gives it back, again and again; does other work if the lock is taken.
async fn work(cx: AsyncCx<Msg>, server: NodeId) {
    cx.observe(Holds(false));
    for _ in 0..REQUESTS {
        if cx.timeout(LONG_PATIENCE, acquire(&cx, server)).await.is_ok() {
            cx.observe(Holds(true));
            cx.sleep(PATIENCE).await;
            cx.observe(Holds(false));
        }
        cx.send(server, Msg::Release);
    }
}

async fn acquire(cx: &AsyncCx<Msg>, server: NodeId) {
    loop {
        let granted = cx.timeout(PATIENCE, cx.call(server, Msg::Acquire)).await;
        if granted == Ok(Msg::Granted(true)) {
            return;
        }
        if granted == Ok(Msg::Granted(false)) {
            cx.sleep(PATIENCE).await;
        }
    }
}

/// The number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of clients. Each makes its requests one after the other.
    pub clients: u32,
    /// The number of servers. Each carries out requests of its own.
    pub servers: u32,
}

/// Clients and servers, on a network that loses, duplicates and delays messages.
pub fn system(size: Size, bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    let Size { clients, servers } = size;
    move |system| {
        for _ in 0..servers {
            system.spawn("server", move |cx| serve(cx, bug));
        }
        for _ in 0..clients {
            match bug {
                Bug::ReleasesForOthers => system.spawn("client", |cx| work(cx, NodeId(0))),
                _ => system.spawn("client", move |cx| ask(cx, servers)),
            };
        }
        let faults = Faults::none().lose(2).duplicate(2).delay(2);
        // The lock is not on disk, so a crash would lose it.
        system.faults(if bug == Bug::ReleasesForOthers { faults } else { faults.crash(1) });
        system.always(ONCE, |s| s.all::<Server>().all(|(_, server)| is_unique(&server.done)));
        system.always(EXCLUSIVE, |s| s.all::<Holds>().filter(|(_, client)| client.0).count() < 2);
    }
}

fn is_unique(done: &[Request]) -> bool {
    let set: BTreeSet<&Request> = done.iter().collect();
    set.len() == done.len()
}
