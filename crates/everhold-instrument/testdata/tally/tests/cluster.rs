use std::net::TcpListener;
use tally::{ask, serve, Replica, Role};

fn cluster() -> String {
    let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<String> = listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
    for (id, listener) in listeners.into_iter().enumerate() {
        let (role, peers) = match id {
            0 => (Role::Leader, addresses[1..].to_vec()),
            _ => (Role::Follower, Vec::new()),
        };
        serve(listener, Replica::new(id as u32, role, peers));
    }
    addresses[0].clone()
}

#[test]
fn additions_are_applied() {
    let leader = cluster();
    for number in 1..60 {
        ask(&leader, &format!("add c{} {number}", number % 3)).unwrap();
    }
}

#[test]
fn another() {
    let leader = cluster();
    for number in 1..40 {
        ask(&leader, &format!("add d {}", number * 7 % 11 + 1)).unwrap();
    }
}
