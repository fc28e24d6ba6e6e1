//! Pools of connections: r2d2 with threads, deadpool with tokio.

mod common;

use common::{found, silent};
use everhold::Net;
use everhold_services::pool::{Borrowing, database, tasks, threads};

const DATABASE: &str = "database:5432";

fn on_threads(net: &mut Net<'_>, borrowing: Borrowing) {
    net.host("database", database);
    net.client("bank", move || threads::main_with(DATABASE, 2, borrowing));
}

fn on_tasks(net: &mut Net<'_>, borrowing: Borrowing) {
    net.host("database", database);
    net.client("bank", move || tasks::main_with(DATABASE, 2, borrowing));
}

#[test]
fn transfers_over_one_connection_each_are_done() {
    silent("r2d2", 200, |net| on_threads(net, Borrowing::One));
    silent("deadpool", 200, |net| on_tasks(net, Borrowing::One));
}

#[test]
fn transfers_that_borrow_a_second_connection_starve_each_other_on_r2d2() {
    found("r2d2, nested", "exit code 1", 500, |net| on_threads(net, Borrowing::Nested));
}

#[test]
fn transfers_that_borrow_a_second_connection_wait_for_each_other_on_deadpool() {
    found("deadpool, nested", "deadlock", 500, |net| on_tasks(net, Borrowing::Nested));
}
