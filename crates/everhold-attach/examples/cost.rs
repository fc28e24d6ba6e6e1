//! The cost of attaching on this machine: nanoseconds a hit by kind of instruction, the time to attach and
//! to leave, and records a second from the kernel to a state.
//!
//! `cargo run --release -p everhold-attach --example cost -- --check` fails if a bar is missed. It needs a C
//! compiler, and root or the two capabilities.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everhold_attach::{Attached, Options, Plan, ProbeFile, Targets, Totals, missing_capabilities};

/// Each function begins with another kind of instruction. The loop says how long a call took.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
struct node { uint64_t id; struct { uint32_t term; } *stats; };
#define KEEP __attribute__((noinline, used))
KEEP uint64_t pushes(struct node *n, uint64_t a) {
    uint64_t r;
    __asm__ volatile("push %%rbx\n pop %%rbx\n lea 1(%1), %0" : "=r"(r) : "r"(a), "r"(n));
    return r;
}
__asm__(".globl begins_push\n.type begins_push,@function\nbegins_push: push %rbx\n lea 1(%rsi),%rax\n pop %rbx\n ret\n.size begins_push,.-begins_push\n"
        ".globl begins_mov\n.type begins_mov,@function\nbegins_mov: mov %rsi,%rax\n add $1,%rax\n ret\n.size begins_mov,.-begins_mov\n");
uint64_t begins_push(struct node *, uint64_t);
uint64_t begins_mov(struct node *, uint64_t);
static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
int main(void) {
    struct { uint32_t term; } stats = {3};
    struct node node = {7, (void *)&stats};
    char word[32];
    unsigned long count;
    while (scanf("%31s %lu", word, &count) == 2) {
        uint64_t (*f)(struct node *, uint64_t) = strcmp(word, "push") ? begins_mov : begins_push;
        uint64_t best = ~0ull, sum = pushes(&node, 1);
        for (int batch = 0; batch < 20; batch++) {
            uint64_t begin = now();
            for (unsigned long i = 0; i < count; i++) sum += f(&node, i);
            uint64_t took = now() - begin;
            if (took < best) best = took;
        }
        printf("%.1f %lu\n", (double)best / (double)count, (unsigned long)sum);
        fflush(stdout);
    }
    return 0;
}
"#;

struct Target {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Target {
    /// The time of one call in nanoseconds, in the best of twenty batches.
    fn measure(&mut self, which: &str, count: u32) -> f64 {
        writeln!(self.child.stdin.as_mut().expect("it has an input"), "{which} {count}")
            .expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        line.split(' ').next().and_then(|word| word.parse().ok()).expect("it says a number")
    }

    fn attach(&self, probes: &str) -> Attached {
        let targets = Targets { processes: vec![self.child.id()], programs: Vec::new() };
        let file = ProbeFile::parse(&format!("budget 1000000000\n{probes}")).expect("it is right");
        let plan = Plan::make(file, &targets).expect("the program is there");
        assert_eq!(plan.problems().count(), 0, "{}", plan.describe());
        let options = Options { ring_bytes: 64 << 20, ..Options::default() };
        Attached::start(plan, options).expect("the kernel allows it")
    }

    /// The added nanoseconds a hit, while somebody takes the records in.
    fn cost(&mut self, which: &str, probes: &str) -> (f64, Totals) {
        let base = self.measure(which, 20_000);
        let mut attached = self.attach(probes);
        let over = AtomicBool::new(false);
        let (with, totals) = thread::scope(|scope| {
            let over = &over;
            let reader = scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    attached.turn();
                    thread::sleep(Duration::from_millis(2));
                }
                attached.leave()
            });
            let with = self.measure(which, 20_000);
            over.store(true, Ordering::Relaxed);
            (with, reader.join().expect("it does not panic"))
        });
        (with - base, totals)
    }
}

fn compile() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("everhold-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    let (source, program) = (folder.join("cost.c"), folder.join("cost"));
    std::fs::write(&source, PROGRAM).expect("there is room");
    let done = Command::new("gcc").args(["-O2", "-o"]).arg(&program).arg(&source).status();
    assert!(done.is_ok_and(|done| done.success()), "gcc is needed");
    program
}

fn start(program: &Path) -> Target {
    let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let output = BufReader::new(child.stdout.take().expect("it has an output"));
    Target { child, output }
}

fn main() -> ExitCode {
    let missing = missing_capabilities();
    if !missing.is_empty() {
        eprintln!("{} missing", missing.join(" and "));
        return ExitCode::from(64);
    }
    let program = compile();
    let mut target = start(&program);
    let rows = [
        ("carried out by the kernel", "push", "on entry begins_push set a = $1, t = $0[8][0]:u32"),
        ("the same, filtered out", "push", "on entry begins_push set a = $1 where $1 == 77777777"),
        ("single-stepped", "mov", "on entry begins_mov set a = $1, t = $0[8][0]:u32"),
        ("entry and return", "push", "after begins_push set a = $1, r = $ret, t = $0[8][0]:u32"),
    ];
    let mut lost = 0;
    for (what, which, probes) in rows {
        let (cost, totals) = target.cost(which, probes);
        lost += totals.lost;
        println!(
            "{what:28} {cost:9.0} ns a hit  ({} records, {} lost)",
            totals.records, totals.lost
        );
    }
    let mut attaching = Vec::new();
    let mut leaving = Vec::new();
    for _ in 0..20 {
        let attached = target.attach(rows[3].2);
        attaching.push(attached.took);
        let begin = Instant::now();
        drop(attached);
        leaving.push(begin.elapsed());
    }
    attaching.sort();
    leaving.sort();
    let (attach, leave) = (attaching[10], leaving[10]);
    println!("{:28} {attach:?} (median of 20), slowest {:?}", "to attach", attaching[19]);
    println!("{:28} {leave:?} (median of 20), slowest {:?}", "to leave", leaving[19]);
    let _ = target.child.kill();
    let _ = target.child.wait();
    let _ = std::fs::remove_dir_all(program.parent().unwrap_or(&program));
    let holds = attach < Duration::from_millis(100) && leave < Duration::from_millis(100);
    let is_checked = std::env::args().any(|word| word == "--check");
    println!("records lost: {lost}; attaching and leaving within 100 ms: {holds}");
    if holds || !is_checked { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
