//! The first program of the README.

use everhold::prelude::*;

#[derive(Clone, Debug, Serialize)]
enum Msg {
    Get,
    Value(u32),
    Put(u32),
}

#[derive(Clone, Default, Serialize)]
struct Register {
    value: u32,
    puts: u32,
}

impl Node for Register {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Get => cx.reply(Msg::Value(self.value)),
            Msg::Put(value) => {
                self.value = value;
                self.puts += 1;
            }
            Msg::Value(_) => cx.unexpected(msg),
        }
    }
}

async fn adder(cx: AsyncCx<Msg>, register: NodeId) {
    if let Msg::Value(value) = cx.call(register, Msg::Get).await {
        cx.send(register, Msg::Put(value + 1));
    }
}

fn additions(system: &mut System<Msg>) {
    let register = system.node("register", Register::default());
    for _ in 0..2 {
        system.spawn("adder", move |cx| adder(cx, register));
    }
    system.always("no addition is lost", move |s| {
        s.get::<Register>(register).is_none_or(|r| r.value == r.puts)
    });
}

/// Lines that the README shows, without the empty ones.
fn shown_in_readme(text: &str) -> Vec<String> {
    let readme = include_str!("../../../../README.md");
    let lines = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    lines.filter(|line| !readme.contains(line)).map(str::to_owned).collect()
}

#[test]
fn the_readme_shows_what_is_printed() {
    let report = explore(additions);
    let finding = report.finding().expect("an addition can be lost");
    assert_eq!(finding.failure.cause.name(), "no addition is lost");
    let missing = shown_in_readme(&finding.picture());
    assert!(missing.is_empty(), "the README should show:\n{report}\nbut lacks: {missing:#?}");
    assert!(shown_in_readme(&finding.schedule.token()).is_empty(), "{report}");
}
