//! Small sources, with the variables that interact with the network.

use everhold_instrument::{Entries, go, rust};

use crate::{folder, is_installed, names, write};

/// Checks the variables of a source in Rust, separated by spaces and sorted.
#[track_caller]
fn check_rust(name: &str, source: &str, expected: &str) {
    check_named(name, source, "", expected);
}

#[track_caller]
fn check_named(name: &str, source: &str, entries: &str, expected: &str) {
    let folder = folder(name);
    write(&folder, "src/lib.rs", source);
    let entries = Entries::parse(entries).expect("the entries are right");
    let facts = rust::read(&folder, &entries).expect("it can be read");
    assert!(facts.skipped.is_empty(), "{:?}", facts.skipped);
    let found: Vec<String> = names(&facts).into_iter().collect();
    assert_eq!(found.join(" "), expected, "{name}");
}

#[track_caller]
fn check_go(name: &str, source: &str, expected: &str) {
    if !is_installed("go", "version") {
        return;
    }
    let folder = folder(name);
    write(&folder, "go.mod", "module example.org/sample\n\ngo 1.19\n");
    write(&folder, "sample.go", source);
    let facts = go::read(&folder, &Entries::default()).expect("Go is installed (golang-go)");
    assert!(facts.skipped.is_empty(), "{:?}", facts.skipped);
    let found: Vec<String> = names(&facts).into_iter().collect();
    assert_eq!(found.join(" "), expected, "{name}");
}

#[test]
fn what_is_received_flows_forward() {
    check_rust(
        "received",
        "fn f(s: &mut std::net::TcpStream) { let mut b = [0; 4]; s.read(&mut b).unwrap(); \
         let n = b[0]; let m = n + 1; let other = 3; g(m, other); } fn g(x: u8, y: u8) { let _z = x; }",
        "f.b f.m f.n g._z g.x",
    );
}

/// The address of a socket is no socket, and a trait of that name is the package's own.
#[test]
fn types_say_what_is_no_connection() {
    check_rust(
        "addresses",
        "use std::net::SocketAddr; pub trait Socket { fn give(&mut self, to: SocketAddr, what: u32); } \
         struct UdpSocket { at: SocketAddr, inner: std::net::UdpSocket } \
         impl Socket for UdpSocket { fn give(&mut self, to: SocketAddr, what: u32) { \
         self.inner.send_to(what.to_string().as_bytes(), to).unwrap(); } } fn \
         open(s: std::net::UdpSocket) -> UdpSocket { let at = s.local_addr().unwrap(); UdpSocket { at, inner: s } } \
         struct Server { socket: Box<dyn Socket>, term: u32 } \
         impl Server { fn tell(&mut self, to: SocketAddr) { self.socket.give(to, self.term); } }",
        "Server.term Server::tell.to UdpSocket::give.to UdpSocket::give.what",
    );
}

#[test]
fn what_is_sent_flows_backward() {
    check_rust(
        "sent",
        "struct S { a: u32, b: u32, out: std::net::UdpSocket } impl S { fn \
         f(&mut self, x: u32) { self.a = x; self.b = 7; let t = self.a.to_string(); \
         self.out.send(t.as_bytes()).unwrap(); } }",
        "S.a S::f.t S::f.x",
    );
}

#[test]
fn values_pass_channels_closures_and_conditions() {
    check_rust(
        "channel",
        "use std::sync::mpsc; fn f(s: std::net::UdpSocket) { let (tx, rx) = mpsc::channel(); \
         let mut b = [0; 4]; s.recv(&mut b).unwrap(); tx.send(b[0]).unwrap(); \
         let got = rx.recv().unwrap(); }",
        "f.b f.got f.rx f.tx",
    );
    check_rust(
        "closure",
        "fn f(s: std::net::UdpSocket) { let mut b = vec![0; 4]; s.recv(&mut b).unwrap(); \
         let sum: Vec<u8> = b.iter().map(|x| x + 1).collect(); }",
        "f.b f.sum f.x",
    );
    check_rust(
        "condition",
        "struct S { leads: bool, sent: u32, other: bool } impl S { fn \
         f(&mut self, s: &std::net::UdpSocket, t: &str) { if self.leads { s.send(t.as_bytes()).unwrap(); } \
         if self.other { self.sent = 1; } } }",
        "S.leads S::f.t",
    );
}

#[test]
fn frameworks_hand_over_parameters_and_send_results() {
    check_rust(
        "axum",
        "struct Order { n: u32 } async fn put(Json(order): Json<Order>) -> Json<u32> { \
         let n = order.n; let answer = n + 1; let unused = 3; Json(answer) }",
        "Order.n put.answer put.n put.order",
    );
}

#[test]
fn entries_name_what_is_not_known() {
    check_named(
        "entries",
        "struct S { t: u32, u: u32 } impl S { fn step(&mut self, m: u32) { self.t = m; } fn \
         emit(&self, v: u32) {} fn g(&self) { self.emit(self.u); } }",
        "receive S::step\nsend S::emit # out\n",
        "S.t S.u S::emit.v S::step.m",
    );
}

#[test]
fn go_flows_both_ways() {
    check_go(
        "go-flows",
        "package sample\n\nimport (\n\t\"bufio\"\n\t\"fmt\"\n\t\"net\"\n)\n\ntype node struct {\n\tterm, other int\n\
         \tname string\n}\n\nfunc (n *node) serve(c net.Conn) {\n\tline, err := bufio.NewReader(c).ReadString('\\n')\n\
         \tif err != nil {\n\t\treturn\n\t}\n\tn.handle(len(line))\n\tfmt.Fprintf(c, \"%s\\n\", n.name)\n}\n\n\
         func (n *node) handle(term int) {\n\tn.term = term\n\tn.other = 3\n}\n",
        "node.handle.term node.name node.serve.line node.term",
    );
}

#[test]
fn go_values_pass_channels_and_literals() {
    check_go(
        "go-channel",
        "package sample\n\nimport \"net/http\"\n\ntype job struct{ body string }\n\nvar jobs = make(chan job)\n\n\
         func take(w http.ResponseWriter, r *http.Request) {\n\tjobs <- job{body: r.URL.Path}\n}\n\n\
         func work() {\n\tunused := 1\n\t_ = unused\n\tfor j := range jobs {\n\t\tprintln(j.body)\n\t}\n}\n",
        "job.body jobs take.r work.j",
    );
}
