//! Each template finds what it is for: small systems, each with one thing to say.

use everhold_infer::{Always, Bound, CutClaims, Reason, Settings, always};
use everhold_property::{print, print_expr};
use everhold_trace::format::ReadOptions;
use everhold_trace::import::csv;
use everhold_trace::{EventKind, Execution, MessageId, TraceBuilder, Value};

use crate::random::Random;
use crate::twin::check_sound;

/// Three nodes that take a step each in turn; what they show depends on what they showed.
fn run(steps: u64, mut next: impl FnMut(&mut Random, Option<&Value>) -> Value) -> Execution {
    let mut random = Random(11);
    let mut trace = TraceBuilder::new();
    let nodes: Vec<_> = (0..3).map(|i| trace.add_node(&format!("n{i}"), "")).collect();
    let mut last: Vec<Option<Value>> = vec![None; nodes.len()];
    for step in 0..steps {
        let node = (step % 3) as usize;
        let state = next(&mut random, last[node].as_ref());
        trace.begin(nodes[node], EventKind::Local { name: "step".into() });
        trace.observe(state.clone());
        last[node] = Some(state);
    }
    trace.finish()
}

/// The claims are among the lines, and all lines hold by the evaluator.
#[track_caller]
fn check(executions: &[Execution], wanted: &[&str]) -> Always {
    let executions: Vec<&Execution> = executions.iter().collect();
    let found = always(&executions, &Settings::default());
    check_shown(&found, wanted);
    check_sound(&found, &executions, 20);
    found
}

#[track_caller]
fn check_shown(found: &Always, wanted: &[&str]) {
    let lines: Vec<String> = found.lines.iter().map(|l| print_expr(&l.property.body)).collect();
    for wanted in wanted {
        let hidden = found.hidden.iter().filter(|h| print_expr(&h.property.body) == **wanted);
        let reason: Vec<String> = hidden.map(|h| h.reason.to_string()).collect();
        assert!(lines.iter().any(|line| line == wanted), "{wanted} {reason:#?}\n{lines:#?}");
    }
}

#[test]
fn one_of() {
    let mode = |random: &mut Random| ["idle", "busy", "done"][random.below(3) as usize];
    let run = run(150, |random, _| Value::record([("mode", mode(random))]));
    check(&[run], &[r#"forall n in nodes: n.mode in {"busy", "done", "idle"}"#]);
}

/// A level that is held at its bounds has them; one that merely had a largest value has none.
#[test]
fn bounds() {
    let run = run(300, |random, last| {
        let before = last.and_then(|last| last.get("level")?.as_int()).unwrap_or(5);
        let level = (before + random.below(25) as i64 - 12).clamp(0, 9);
        Value::record([("level", level), ("noise", random.below(10_000) as i64)])
    });
    let wanted = ["forall n in nodes: n.level >= 0", "forall n in nodes: n.level <= 9"];
    let found = check(&[run], &wanted);
    assert!(!found.lines.iter().any(|line| print(&line.property).contains("noise")));
}

#[test]
fn not_null() {
    let run = run(200, |random, _| {
        let root = random.below(3) == 0;
        let parent = match random.below(40) as i64 {
            _ if root && random.below(2) == 0 => Value::Null,
            parent => parent.into(),
        };
        let role = Value::from(if root { "root" } else { "leaf" });
        Value::record([("role", role), ("up", parent), ("work", (random.below(900) as i64).into())])
    });
    check(&[run], &[r#"forall n in nodes: n.role == "leaf" implies n.up != null"#]);
}

#[test]
fn sorted_and_without_duplicates() {
    let run = run(60, |random, _| {
        let mut items: Vec<i64> = (0..6).map(|_| random.below(8) as i64).collect();
        items.sort_unstable();
        items.dedup();
        Value::record([("items", Value::list(items))])
    });
    let wanted = [
        "forall n in nodes: sorted(n.items)",
        "forall n in nodes: len(set(n.items)) == len(n.items)",
    ];
    check(&[run], &wanted);
}

/// Five nodes; a leader has the term of a majority at least, and there is one in a term.
#[test]
fn majorities_and_one_leader_a_term() {
    let mut random = Random(5);
    let mut text = String::from("snapshot,node,role,term\n");
    for snapshot in 0..150 {
        let mut terms: Vec<u64> = (0..5).map(|_| random.below(12)).collect();
        let mut roles = ["follower"; 5];
        let mut order: Vec<usize> = (0..5).collect();
        order.sort_by_key(|node| terms[*node]);
        // The third smallest term is that of a majority; an old leader may be behind.
        roles[order[2]] = "leader";
        if random.below(2) == 0 && terms[order[0]] != terms[order[2]] {
            roles[order[0]] = "leader";
        }
        if random.below(3) == 0 {
            terms[order[1]] = terms[order[2]];
        }
        for node in 0..5 {
            text += &format!("{snapshot},n{node},{},{}\n", roles[node], terms[node]);
        }
    }
    let read = csv::read(text.as_bytes(), &ReadOptions::strict()).expect("it is a table");
    let wanted = [
        r#"forall n in nodes: n.role == "leader" implies count(m in nodes: m.term >= n.term) >= 3"#,
        "forall a, b in nodes where a != b: \
         a.role == \"leader\" and a.term == b.term implies b.role == \"follower\"",
    ];
    check(&read.executions, &wanted);
}

/// A primary is three ahead of its backups; the roles move, so that it is no matter of nodes.
#[test]
fn constant_difference_across_nodes() {
    let mut random = Random(7);
    let mut text = String::from("snapshot,node,role,at,load\n");
    for snapshot in 0..200 {
        let (primary, at) = (random.below(3), random.below(40));
        for node in 0..3 {
            let (role, ahead) = if node == primary { ("primary", 3) } else { ("backup", 0) };
            let load = random.below(500);
            text += &format!("{snapshot},n{node},{role},{},{load}\n", at + ahead);
        }
    }
    let read = csv::read(text.as_bytes(), &ReadOptions::strict()).expect("it is a table");
    let line = "forall a, b in nodes where a != b: a.role == \"primary\" implies a.at == b.at + 3";
    let found = check(&read.executions, &[line]);
    // Claims that follow from it are hidden.
    let order = |l: &everhold_infer::Line| print(&l.property).contains("a.at > b.at");
    assert!(!found.lines.iter().any(order), "{:#?}", found.lines);
}

/// Leadership is handed over; how often that was seen to leave one leader is what counts, and not
/// how many nodes there are. The claim about a term is weaker.
#[test]
fn one_leader_at_a_time() {
    let mut random = Random(2);
    let mut trace = TraceBuilder::new();
    let nodes: Vec<_> = (0..3).map(|i| trace.add_node(&format!("n{i}"), "")).collect();
    let (mut terms, mut leader) = ([0_i64; 3], 0);
    for _ in 0..25 {
        let next = (leader + 1 + random.below(2) as usize) % 3;
        let state = |role: &str, term: i64, random: &mut Random| {
            let noise = random.below(30) as i64;
            Value::record([
                ("role", Value::from(role)),
                ("term", term.into()),
                ("noise", noise.into()),
            ])
        };
        trace.begin(nodes[leader], EventKind::Local { name: "resign".into() });
        let message = trace.send(nodes[next], "lead", None);
        trace.observe(state("follower", terms[leader], &mut random));
        terms[next] = terms[leader] + random.below(2) as i64;
        trace.begin(nodes[next], EventKind::Deliver { message });
        for _ in 0..3 {
            trace.observe(state("leader", terms[next], &mut random));
            trace.begin(nodes[next], EventKind::Local { name: "work".into() });
        }
        trace.observe(state("leader", terms[next], &mut random));
        leader = next;
    }
    let pair = "forall a, b in nodes where a != b: a.role == \"leader\"";
    let line = format!("{pair} implies b.role == \"follower\"");
    let found = check(&[trace.finish()], &[&line]);
    let number = 1 + found.lines.iter().position(|l| print_expr(&l.property.body) == line).unwrap();
    let weaker = format!("{pair} and a.term == b.term implies b.role != \"leader\"");
    let hidden = found.hidden.iter().find(|h| print_expr(&h.property.body) == weaker).unwrap();
    let Reason::Follows(premises) = &hidden.reason else { panic!("{hidden:?}") };
    let lines: Vec<_> = premises.iter().map(|premise| premise.shown).collect();
    assert_eq!(lines, [Ok(number)], "{hidden:?}");
}

/// Nodes that elect a leader of each term and follow it, and that also show numbers without any
/// meaning: one that is new in each step, one of few values, one that stays for a while, one that
/// two nodes happen to share, a flag. (A flag that a node never changes is its role.)
fn elections(seed: u64) -> Execution {
    let mut random = Random(seed);
    let mut trace = TraceBuilder::new();
    let nodes: Vec<_> = (0..4).map(|i| trace.add_node(&format!("n{i}"), "")).collect();
    let mut chiefs = vec![0];
    let mut terms = [0_usize; 4];
    let (mut seen, mut marks) = ([0_i64; 4], [0_i64; 4]);
    let fixed = [0, 1, 2, random.below(3) as i64];
    for _ in 0..600 {
        let node = random.below(4) as usize;
        match random.below(12) {
            0 => {
                chiefs.push(node);
                terms[node] = chiefs.len() - 1;
            }
            1..5 => terms[node] = chiefs.len() - 1,
            _ => seen[node] += random.below(3) as i64,
        }
        if random.below(8) == 0 {
            marks[node] = random.below(6) as i64;
        }
        let leads = chiefs[terms[node]] == node && terms[node] > 0;
        trace.begin(nodes[node], EventKind::Local { name: "step".into() });
        trace.observe(Value::record([
            ("term", Value::Int(terms[node] as i64)),
            ("chief", Value::Int(chiefs[terms[node]] as i64 * 7 % 11)),
            ("role", if leads { "leader" } else { "follower" }.into()),
            ("seen", seen[node].into()),
            ("known", (seen[node] + terms[node] as i64).into()),
            ("noise_new", (random.below(40) as i64).into()),
            ("noise_few", (random.below(4) as i64).into()),
            ("noise_slow", marks[node].into()),
            ("noise_fixed", fixed[node].into()),
            ("noise_flag", (random.below(2) == 0).into()),
        ]));
    }
    trace.finish()
}

/// The same term means the same chief; what means nothing is in no line, though what is nearly
/// always true is true whenever two nodes happen to show the same number. Of ten such inputs one in
/// a hundred lines may be a mistake, which is less than two.
#[test]
fn conditions_have_to_matter() {
    let line = "forall a, b in nodes where a != b: a.term == b.term implies a.chief == b.chief";
    for seed in 0..10 {
        let runs = [elections(seed), elections(seed + 100)];
        let found = always(&[&runs[0], &runs[1]], &Settings::default());
        check_shown(&found, &[line]);
        let lines = found.lines.iter().map(|line| print(&line.property));
        let noise: Vec<String> = lines.filter(|line| line.contains("noise")).collect();
        assert_eq!(noise, Vec::<String>::new(), "seed {seed}");
    }
}

/// Data that does not fit into memory is left out, and the result says so.
#[test]
fn bounds_are_told() {
    let executions = [crate::random::execution(3, 4, 600)];
    let executions: Vec<&Execution> = executions.iter().collect();
    let told =
        |memory_max: usize| always(&executions, &Settings::default().memory_max(memory_max)).bounds;
    assert_eq!(told(1 << 30), []);
    let bounds = told(1 << 15);
    let pairs = |b: &Bound| matches!(b, Bound::PairsOfStates { looked_at, all } if *looked_at > 0 && looked_at < all);
    let elements = |b: &Bound| match b {
        Bound::Elements { of: Some(of), looked_at, all } => of == "log" && looked_at < all,
        _ => false,
    };
    assert!(bounds.iter().any(pairs) && bounds.iter().any(elements), "{bounds:#?}");
    assert!(bounds.iter().all(Bound::is_of_memory), "{bounds:#?}");
}

/// Three nodes that never speak have more cuts than are judged; two of them are above all marks.
#[test]
fn the_bound_on_cuts_is_told() {
    let mut step = 0;
    let run = run(180, |random, _| {
        let high = if step % 3 == 0 { 0 } else { 31 + random.below(30) as i64 };
        step += 1;
        Value::record([("high", high), ("mark", 1 + random.below(30) as i64)])
    });
    let line = "forall n in nodes: count(m in nodes: m.high >= n.mark) >= 2";
    let found = check(&[run], &[line]);
    let told = Bound::Cuts { judged: 20_000, claims: CutClaims::Majorities };
    assert_eq!(found.bounds, std::slice::from_ref(&told));
    assert!(!told.is_of_memory());
    assert_eq!(told.to_string(), "judged majorities on 20000 cuts of a run that has more");
}

/// A follower applies some of what the leader decided, in its order.
#[test]
fn subsequence() {
    let mut random = Random(3);
    let mut text = String::from("snapshot,node,role,decided\n");
    for snapshot in 0..120 {
        let mut decided: Vec<u64> = (0..8).collect();
        for place in 0..8 {
            decided.swap(place, random.below(8) as usize);
        }
        let leader = random.below(3);
        for node in 0..3 {
            let role = if node == leader { "leader" } else { "follower" };
            let mut own = decided.clone();
            own.retain(|_| node == leader || random.below(2) == 0);
            let own: Vec<String> = own.iter().map(u64::to_string).collect();
            text += &format!("{snapshot},n{node},{role},\"[{}]\"\n", own.join(", "));
        }
    }
    let read = csv::read(text.as_bytes(), &ReadOptions::strict()).expect("it is a table");
    let line = "forall a, b in nodes where a != b: \
                a.role == \"leader\" implies b.decided subsequence of a.decided";
    let found = check(&read.executions, &[line]);
    let weaker = |l: &everhold_infer::Line| print(&l.property).contains("b.decided subset of");
    assert!(!found.lines.iter().any(weaker), "{:#?}", found.lines);
}

/// Accounts that send money to each other, with news between them that no counter counts; one in
/// `forgets` receipts is not booked.
fn transfers(forgets: u64) -> Execution {
    let mut random = Random(9);
    let mut trace = TraceBuilder::new();
    let nodes: Vec<_> = (0..3).map(|i| trace.add_node(&format!("n{i}"), "")).collect();
    let (mut sent, mut received) = ([0_i64; 3], [0_i64; 3]);
    let mut flying: Vec<(usize, bool, MessageId)> = Vec::new();
    for _ in 0..240 {
        let arrives = random.below(2) == 0 && !flying.is_empty();
        let node = if arrives {
            let place = random.below(flying.len() as u64) as usize;
            let (to, counted, message) = flying.swap_remove(place);
            trace.begin(nodes[to], EventKind::Deliver { message });
            received[to] += i64::from(counted && (forgets == 0 || random.below(forgets) > 0));
            to
        } else {
            let (from, to, counted) =
                (random.below(3) as usize, random.below(3) as usize, random.below(3) > 0);
            trace.begin(nodes[from], EventKind::Local { name: "step".into() });
            let message = trace.send(nodes[to], if counted { "Money" } else { "News" }, None);
            flying.push((to, counted, message));
            sent[from] += i64::from(counted);
            from
        };
        trace.observe(Value::record([("sent", sent[node]), ("received", received[node])]));
    }
    trace.finish()
}

#[test]
fn counters_and_messages_in_flight() {
    let line = "sum(n in nodes: n.sent - n.received) == in_flight(\"Money\")";
    check(&[transfers(0)], &[line]);
    let leaky = transfers(20);
    let found = always(&[&leaky], &Settings::default());
    let tells = |property: &everhold_property::Property| print(property).contains("in_flight");
    assert!(!found.lines.iter().any(|line| tells(&line.property)));
    assert!(!found.hidden.iter().any(|hidden| tells(&hidden.property)));
}
