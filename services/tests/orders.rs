//! axum and reqwest, over connections that break.

mod common;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::orders::{Customer, main};

#[tokio::main(flavor = "current_thread")]
async fn customer(with_keys: bool) {
    let customer = Customer::new("shop", with_keys);
    for number in 1..=2 {
        customer.order(number).await;
        assert_eq!(customer.orders().await, number, "an order was made twice");
    }
}

fn shop(net: &mut Net<'_>, with_keys: bool) {
    net.host("shop", main);
    net.client("customer", move || customer(with_keys));
    net.faults(Faults::none().reset(1));
}

#[test]
fn an_order_with_a_key_is_made_once() {
    silent("orders", 200, |net| shop(net, true));
}

#[test]
fn an_order_that_is_repeated_after_a_reset_is_made_twice() {
    found("orders without keys", "an order was made twice", 1_000, |net| shop(net, false));
}
