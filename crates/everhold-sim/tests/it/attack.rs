//! Traces that a search keeps, and candidates that it attacks.

use everhold_property::{Property, parse};
use everhold_sim::{Attack, Explorer, Search};

use crate::toys::funnel;

fn properties(text: &str) -> Vec<Property> {
    parse(text).into_result().expect("the candidates are in the language")
}

fn attack(candidates: &str, workers: usize) -> Attack {
    let explorer = Explorer::new().executions(2_000).workers(workers);
    explorer.attack(&properties(candidates), funnel(3))
}

/// Checks which candidates stand and which fall.
#[track_caller]
fn check(candidates: &str, stand: &[&str], fall: &[&str]) {
    for workers in [1, 3] {
        let attack = attack(candidates, workers);
        let stood: Vec<&str> = attack.stood.iter().map(|p| p.name.as_str()).collect();
        let mut fell: Vec<&str> = attack.fell.iter().map(|f| f.property.name.as_str()).collect();
        fell.sort_unstable();
        assert_eq!((stood.as_slice(), fell.as_slice()), (stand, fall), "{attack}");
        // The execution in which one candidate falls does not end the trial of the others.
        assert_eq!(attack.report.executions, 2_000, "{attack}");
    }
}

#[test]
fn false_candidates_fall_and_true_ones_stand() {
    check(
        r#"
        always "at most three": forall l in log nodes: len(l.received) <= 3
        always "at most two": forall l in log nodes: len(l.received) <= 2
        always "never empty": forall l in log nodes: len(l.received) > 0
        always "no duplicates": forall l in log nodes: len(set(l.received)) == len(l.received)
        "#,
        &["at most three", "no duplicates"],
        &["at most two", "never empty"],
    );
    check("always \"one\": forall l in log nodes: len(l.received) <= 3", &["one"], &[]);
}

#[test]
fn a_fallen_candidate_comes_with_a_small_execution_that_replays() {
    let text = r#"always "not two": forall l in log nodes: len(l.received) != 2"#;
    let attack = attack(text, 2);
    let finding = &attack.fell[0].finding;
    assert!(finding.schedule.steps() <= 3, "{attack}");
    let again = Explorer::new().replay(finding.schedule.clone()).run(move |system| {
        funnel(3)(system);
        system.property(text);
    });
    assert_eq!(again.finding().expect("it fails again").failure, finding.failure);
}

#[test]
fn a_search_keeps_the_traces_of_its_first_executions() {
    let traces = |workers, search| {
        let explorer = Explorer::new().executions(100).traces(20).workers(workers).search(search);
        explorer.run(funnel(3)).traces
    };
    for search in [Search::Random, Search::Portfolio] {
        let kept = traces(1, search.clone());
        assert_eq!(kept.len(), 20);
        // A start for each of the four nodes, and three deliveries.
        assert!(kept.iter().all(|trace| trace.events().len() == 7), "{:?}", kept[0]);
        assert_eq!(kept, traces(3, search), "what is kept does not depend on the workers");
    }
}

#[test]
fn traces_are_written_whole() {
    let report = Explorer::new().executions(10).traces(10).run(funnel(2));
    let folder = std::env::temp_dir().join(format!("everhold-traces-{}", std::process::id()));
    let file = folder.join("traces.jsonl");
    report.save_traces(&file).expect("the folder can be made");
    let options = everhold_trace::format::ReadOptions::strict();
    let bytes = std::fs::read(&file).expect("it is there");
    let read = everhold_trace::format::read_all(bytes.as_slice(), &options).expect("it is whole");
    assert_eq!(read.executions, report.traces);
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

#[test]
#[should_panic(expected = "an exhaustive search keeps no traces")]
fn an_exhaustive_search_says_that_it_keeps_no_traces() {
    let search = Search::Exhaustive { reduction: everhold_sim::Reduction::None };
    let _ = Explorer::new().search(search).traces(1).run(funnel(1));
}
