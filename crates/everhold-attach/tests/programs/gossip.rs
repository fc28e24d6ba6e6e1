//! A node that exchanges messages with others and keeps vector clocks, which travel in the messages.
//! Every local event is written into a log with its clock: the truth that an observer is compared with.
//!
//! gossip NUMBER COUNT BASE-PORT EVENTS LOG

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

struct State {
    clock: Vec<u64>,
    log: File,
}

#[inline(never)]
pub fn local_event(count: u64, state: &mut State) {
    writeln!(state.log, "{count} {:?}", state.clock).unwrap();
}

fn hear(stream: TcpStream, state: Arc<Mutex<State>>) {
    // A small buffer, so that one read may end in the middle of a message.
    let mut reader = BufReader::with_capacity(700, stream);
    loop {
        let mut len = [0; 4];
        if reader.read_exact(&mut len).is_err() {
            return;
        }
        let mut message = vec![0; u32::from_le_bytes(len) as usize];
        if reader.read_exact(&mut message).is_err() {
            return;
        }
        let mut state = state.lock().unwrap();
        for (index, own) in state.clock.iter_mut().enumerate() {
            let theirs = u64::from_le_bytes(message[index * 8..index * 8 + 8].try_into().unwrap());
            *own = theirs.max(*own);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize| -> usize { arguments[index].parse().unwrap() };
    let (own, count, port, events) = (number(1), number(2), number(3), number(4));
    let log = File::create(&arguments[5]).unwrap();
    let state = Arc::new(Mutex::new(State { clock: vec![0; count], log }));
    let listener = TcpListener::bind(("127.0.0.1", (port + own) as u16)).unwrap();
    let heard = Arc::clone(&state);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let heard = Arc::clone(&heard);
            thread::spawn(move || hear(stream, heard));
        }
    });
    println!("listening");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut others: Vec<TcpStream> = (0..count)
        .filter(|other| *other != own)
        .map(|other| TcpStream::connect(("127.0.0.1", (port + other) as u16)).unwrap())
        .collect();
    println!("connected");
    line.clear();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64 ^ own as u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut happened = 0;
    while happened < events {
        let mut state = state.lock().unwrap();
        if random(3) == 0 {
            happened += 1;
            state.clock[own] += 1;
            local_event(state.clock[own], &mut state);
        } else {
            let mut message: Vec<u8> = state.clock.iter().flat_map(|c| c.to_le_bytes()).collect();
            message.resize(message.len() + random(900), 0);
            let to = random(others.len());
            let mut whole = (message.len() as u32).to_le_bytes().to_vec();
            whole.extend(message);
            others[to].write_all(&whole).unwrap();
        }
        drop(state);
        if random(4) == 0 {
            thread::sleep(Duration::from_micros(random(400) as u64));
        }
    }
    thread::sleep(Duration::from_millis(500));
    println!("done");
    line.clear();
    std::io::stdin().read_line(&mut line).unwrap();
}
