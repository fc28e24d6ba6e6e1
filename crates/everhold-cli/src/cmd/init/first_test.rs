use everhold::prelude::*;

#[derive(Clone, Default, Serialize)]
struct Server { stored: Vec<u64> }
impl Node for Server {
    type Msg = u64;
    fn message(&mut self, _: &mut Cx<u64>, _: NodeId, value: u64) { self.stored.push(value); }
}

#[test]
fn every_value_is_stored_once() {
    explore(|system| {
        let server = system.node("server", Server::default());
        system.spawn("client", move |cx| async move {
            for value in [1, 2] { cx.send(server, value); }
        });
        system.faults(Faults::none().lose(1));
        system.property("always \"stored once\": forall s in server nodes: len(set(s.stored)) == len(s.stored)");
        system.property("sometimes \"all stored\": exists s in server nodes: len(s.stored) == 2");
    })
    .assert_holds();
}
