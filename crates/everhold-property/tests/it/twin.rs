//! The compiled evaluator agrees with the plain one.
//!
//! Random properties run over random sequences of states, in which nodes change, report late, go
//! down and come back. These tests can catch mistakes that those of `eval.rs` cannot: results that
//! are cached too long, slots and columns that are mixed up, and dependence on the order of
//! evaluation.

use everhold_property::{
    Changed, Checker, Evaluator, Library, NodeId, Program, Rule, Snapshot, State, Value, Verdict,
    evaluate, parse,
};

use crate::eval::library;
use crate::random::Random;

/// Writes random expressions of which most are well typed and some are not.
pub(crate) struct Writer<'r> {
    pub(crate) random: &'r mut Random,
    /// Names of node variables, of records, and of other values.
    nodes: Vec<String>,
    items: Vec<String>,
    values: Vec<String>,
    count: usize,
}

impl Writer<'_> {
    pub(crate) fn new(random: &mut Random) -> Writer<'_> {
        Writer { random, nodes: Vec::new(), items: Vec::new(), values: Vec::new(), count: 0 }
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    /// A condition.
    pub(crate) fn test(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf();
        }
        match self.random.below(9) {
            0 => format!("not ({})", self.test(depth - 1)),
            1 => format!("({} and {})", self.test(depth - 1), self.test(depth - 1)),
            2 => format!("({} or {})", self.test(depth - 1), self.test(depth - 1)),
            3 => format!("({} implies {})", self.test(depth - 1), self.test(depth - 1)),
            4..=6 => self.quantified(depth - 1),
            7 => format!("changed({})", self.number(depth - 1)),
            _ => self.leaf(),
        }
    }

    fn leaf(&mut self) -> String {
        let order = self.random.pick(&["==", "!=", "<", "<=", ">", ">="]);
        let equal = self.random.pick(&["==", "!="]);
        match self.random.below(9) {
            0 | 1 => format!("{} {order} {}", self.number(1), self.number(1)),
            2 => format!("{} {equal} {}", self.node(), self.node()),
            3 => format!("{}.role == \"leader\"", self.node()),
            4 => format!("{}.role is {}", self.node(), self.random.pick(&["leader", "Voted"])),
            5 => format!(
                "{} {} {}",
                self.number(1),
                self.random.pick(&["in", "not in"]),
                self.list()
            ),
            6 => {
                let relation = self.random.pick(&[
                    "subset of",
                    "disjoint from",
                    "prefix of",
                    "subsequence of",
                ]);
                format!("{} {relation} {}", self.list(), self.list())
            }
            7 => format!("{} in {}.peers", self.node(), self.node()),
            _ => self.random.pick(&["true", "false", "up(node(\"b\"))", "sorted([1, 2])"]).into(),
        }
    }

    fn node(&mut self) -> String {
        match self.random.below(5) {
            0 => format!("node(\"{}\")", self.random.pick(&["a", "b", "c", "nobody"])),
            1 if !self.nodes.is_empty() => format!("{}.peer", self.random.pick(&self.nodes)),
            _ if !self.nodes.is_empty() => self.random.pick(&self.nodes),
            _ => "node(\"a\")".into(),
        }
    }

    fn list(&mut self) -> String {
        match self.random.below(4) {
            0 => "[1, 2]".into(),
            1 => "{0, 1, 3}".into(),
            2 => format!("window({}, 2)", self.number(0)),
            _ => format!("{}.log", self.node()),
        }
    }

    fn number(&mut self, depth: usize) -> String {
        match self.random.below(12) {
            0 => self.random.below(4).to_string(),
            1 if !self.values.is_empty() => self.random.pick(&self.values),
            2 if !self.items.is_empty() => {
                format!(
                    "{}.{}",
                    self.random.pick(&self.items),
                    self.random.pick(&["key", "val", "x"])
                )
            }
            3 => format!("len({})", self.list()),
            4 => format!("{}.log[{}]", self.node(), self.random.below(3)),
            5 if depth > 0 => format!("({} + {})", self.number(depth - 1), self.number(depth - 1)),
            6 if depth > 0 => format!("previous({})", self.number(depth - 1)),
            7 if depth > 0 => self.aggregate(depth - 1),
            8 => "QUORUM".into(),
            9 if depth > 0 => format!("twice({})", self.number(depth - 1)),
            10 => format!("{}.meta.{}", self.node(), self.random.pick(&["x", "deep"])),
            _ => format!("{}.{}", self.node(), self.random.pick(&["x", "y", "role"])),
        }
    }

    fn aggregate(&mut self, depth: usize) -> String {
        let op = self.random.pick(&["count", "sum", "min", "max"]);
        let (over, kinds) = self.over();
        let guard =
            if self.random.chance(40) { format!(" where {}", self.test(0)) } else { String::new() };
        let body = if op == "count" { self.test(depth) } else { self.number(depth) };
        self.forget(&kinds);
        format!("{op}({over}{guard}: {body})")
    }

    fn quantified(&mut self, depth: usize) -> String {
        let quantifier = self.random.pick(&["forall", "exists"]);
        let (over, kinds) = self.over();
        let guard =
            if self.random.chance(40) { format!(" where {}", self.test(1)) } else { String::new() };
        let body = self.test(depth);
        self.forget(&kinds);
        format!("({quantifier} {over}{guard}: {body})")
    }

    /// Writes binders, and returns the lists to which their variables were added.
    fn over(&mut self) -> (String, Vec<u8>) {
        let mut kinds = Vec::new();
        let n = 1 + self.random.below(2);
        let binders: Vec<String> = (0..n).map(|_| self.binder(&mut kinds)).collect();
        (binders.join(", "), kinds)
    }

    fn binder(&mut self, kinds: &mut Vec<u8>) -> String {
        let (name, other) = (self.fresh(), self.fresh());
        let node = self.node();
        let (text, list) = match self.random.below(10) {
            0 => (format!("{name} in {node}.items"), 1),
            1 => (format!("{name} in {node}.log"), 2),
            2 => (format!("{name} in {}..{}", self.random.below(2), self.number(0)), 2),
            3 => (format!("{other} -> {name} in {node}.table"), 2),
            4 => (format!("{other} -> {name} in {node}.items"), 1),
            5 => (format!("{name} in {node}.peers"), 0),
            n => {
                let domain = ["nodes", "nodes", "server nodes", "all nodes"][n - 6];
                (format!("{name} in {domain}"), 0)
            }
        };
        kinds.push(list);
        [&mut self.nodes, &mut self.items, &mut self.values][list as usize].push(name);
        text
    }

    fn forget(&mut self, kinds: &[u8]) {
        for list in kinds {
            [&mut self.nodes, &mut self.items, &mut self.values][*list as usize].pop();
        }
    }
}

pub(crate) fn local_state(random: &mut Random, nodes: u32) -> Value {
    let int = |random: &mut Random| Value::Int(random.below(3) as i64);
    let mut fields = vec![("x".to_owned(), int(random))];
    if random.chance(80) {
        fields.push(("y".into(), random.pick(&[Value::Int(1), Value::Float(1.5), Value::Null])));
    }
    let voted =
        Value::Variant { name: "Voted".into(), payload: Box::new(Value::record([("x", 1)])) };
    fields.push(("role".into(), random.pick(&["leader".into(), "follower".into(), voted])));
    let len = random.below(3);
    fields.push(("log".into(), Value::List((0..len).map(|_| int(random)).collect())));
    let item = |random: &mut Random| Value::record([("key", int(random)), ("val", int(random))]);
    let len = random.below(3);
    fields.push(("items".into(), Value::List((0..len).map(|_| item(random)).collect())));
    let len = random.below(3);
    fields
        .push(("table".into(), Value::Map((0..len).map(|_| (int(random), int(random))).collect())));
    let node = |random: &mut Random| Value::Node(NodeId(random.below(nodes as usize) as u32));
    if random.chance(40) {
        fields.push(("peer".into(), node(random)));
        fields.push(("peers".into(), Value::Set((0..2).map(|_| node(random)).collect())));
    }
    let meta = [Value::record([("x", 1)]), node(random), Value::Int(3), Value::Null];
    fields.push(("meta".into(), random.pick(&meta)));
    if random.chance(3) { Value::Int(7) } else { Value::Record(fields.into_iter().collect()) }
}

/// Changes one node and returns it.
pub(crate) fn change(random: &mut Random, state: &mut Snapshot) -> NodeId {
    let n = state.members().len();
    let node = NodeId(random.below(n) as u32);
    match random.below(12) {
        0 => state.set_up(node, random.chance(50)),
        1 => state.clear(node),
        _ => state.set(node, local_state(random, n as u32)),
    }
    node
}

fn start(random: &mut Random) -> Snapshot {
    let mut state = Snapshot::default();
    for name in &["a", "b", "c"][..1 + random.below(3)] {
        state.add(name, random.pick(&["server", "client"]));
    }
    state
}

fn run(seed: u64, source: &str, library: &Library, seen: &mut [usize; 3]) {
    let mut random = Random::new(seed);
    let text = format!("always \"p\": {source}");
    let property = parse(&text).into_result().unwrap_or_else(|e| panic!("{text}\n{e:?}")).remove(0);
    let program = Program::new(&property, library);
    let mut state = start(&mut random);
    let mut evaluator = Evaluator::new(&program, state.members());
    let mut past = vec![state.clone()];
    for step in 0..24 {
        if step > 0 {
            evaluator.step();
            let node = change(&mut random, &mut state);
            evaluator.set_members(state.members());
            match state.state(node) {
                Some(value) => evaluator.set(node, value),
                None => evaluator.set_row(node, None),
            }
            past.push(state.clone());
        }
        let history: Vec<&dyn State> = past.iter().map(|state| state as &dyn State).collect();
        let expected = evaluate(&property, library, &history, &[]).expect("the scope is every cut");
        let actual = evaluator.verdict();
        seen[actual as usize] += 1;
        assert_eq!(actual, expected, "seed {seed} step {step}\n{text}\n{state:#?}");
    }
}

/// Runs 6,000 properties over 24 states each: every form of the writer meets every kind of change
/// many times.
#[test]
fn the_evaluators_agree() {
    let mut seen = [0; 3];
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let source = Writer::new(&mut random).test(3);
        run(seed, &source, &library(), &mut seen);
    }
    // If nearly all properties were unknown, the comparison would prove nothing.
    assert!(seen.iter().all(|count| *count > 6_000 * 24 / 10), "{seen:?}");
}

/// The checker agrees in the scopes that exclude states, while messages come and go.
#[test]
fn the_checker_agrees_in_every_scope() {
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let source = match random.below(3) {
            0 => "forall a, b in nodes where a != b: a.x != b.x".to_owned(),
            1 => "forall a in nodes: forall i in a.items, b in nodes: i.key != b.x".to_owned(),
            _ => format!("forall v98, v99 in nodes: {}", Writer::new(&mut random).test(2)),
        };
        let scope = random.pick(&["when quiet", "when all quiet", ""]);
        run_checker(&mut random, &format!("always \"p\" {scope}: {source}"));
    }
}

fn run_checker(random: &mut Random, text: &str) {
    let library = library();
    let property = parse(text).into_result().expect("the test writes a property").remove(0);
    let mut checker = Checker::new(&Rule::new(&property, &library));
    let mut state = start(random);
    let mut past: Vec<Snapshot> = Vec::new();
    for step in 0..16 {
        // A reset must leave nothing behind.
        if step == 4 {
            checker.reset();
            past.clear();
        }
        let node = change(random, &mut state);
        let other = NodeId(random.below(state.members().len()) as u32);
        state.set_in_flight(node, other, random.below(2) as u32);
        past.push(state.clone());
        let history: Vec<&dyn State> = past.iter().map(|state| state as &dyn State).collect();
        let expected = evaluate(&property, &library, &history, &[]).unwrap_or(Verdict::Unknown);
        let actual = checker.clone().step(&state, Changed::Node(node), 0);
        assert_eq!(checker.step(&state, Changed::Node(node), 0), actual);
        assert_eq!(actual, expected, "step {step}\n{text}\n{state:#?}");
    }
}

/// The forms whose results are cached for each tuple of nodes, which a random property may not
/// contain.
#[test]
fn the_evaluators_agree_on_common_forms() {
    let sources = [
        "forall a, b in nodes where a != b: not (a.role == \"leader\" and b.role == \"leader\" and a.x == b.x)",
        "forall a, b in nodes, i in a.items, j in b.items: i.key == j.key implies i.val == j.val",
        "forall a in nodes: forall b in nodes where b.x > 0: a.x <= b.x + 2",
        "forall a in server nodes, b in client nodes: a.x >= b.x",
        "exists a, b, c in nodes: a.x + b.x == c.x",
        "sum(n in nodes: n.x) <= 4 and count(n in nodes: n.role is leader) <= 2",
        "forall n in nodes: n.x >= previous(n.x) or changed(n.log)",
        "forall n in nodes: n.peer.x <= 1 and n.peer.peer.x != 1",
        "forall n in nodes: n.x <= max(m in nodes: m.x)",
        "exists n in nodes: forall k -> v in n.table: k < v",
    ];
    let mut seen = [0; 3];
    for (i, source) in sources.iter().enumerate() {
        for seed in 0..150 {
            run(seed * 100 + i as u64, source, &library(), &mut seen);
        }
    }
}
