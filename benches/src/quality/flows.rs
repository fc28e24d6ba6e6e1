//! Protocols about what flows: payments with holds and fees, credits for a shared buffer.

use super::system::{Fields, Net, Protocol};

fn with(first: &'static str, prefix: &str, kind: &'static str) -> Vec<(String, &'static str)> {
    let others = (0..4).map(|place| (format!("{prefix}{place}"), kind));
    [(first.to_owned(), first)].into_iter().chain(others).collect()
}

/// Accounts that hold what they offer to pay, and a house that takes a fee of each payment.
pub(super) struct Clearing {
    fees: i64,
    accounts: [Account; 4],
}

#[derive(Clone, Copy)]
struct Account {
    balance: i64,
    held: i64,
}

impl Default for Clearing {
    fn default() -> Clearing {
        Clearing { fees: 0, accounts: [Account { balance: 200, held: 0 }; 4] }
    }
}

/// Each with an amount.
pub(super) enum Payment {
    Offer(i64),
    Accept(i64),
    Decline(i64),
    Pay(i64),
    Fee(i64),
}

impl Protocol for Clearing {
    type Msg = Payment;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        with("house", "acc", "account")
    }

    fn state(&self, node: usize) -> Fields {
        let Some(account) = node.checked_sub(1) else { return vec![("fees", self.fees.into())] };
        let own = self.accounts[account];
        vec![
            ("balance", own.balance.into()),
            ("held", own.held.into()),
            ("available", (own.balance - own.held).into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Payment>) {
        let Some(account) = node.checked_sub(1) else { return };
        let own = &mut self.accounts[account];
        let available = own.balance - own.held;
        let mut amount = (20 + net.random.below(80) as i64).min(available);
        if net.mistake(60) {
            amount = own.balance;
        }
        if amount > 0 && net.random.once_in(5) {
            own.held += amount;
            let to = 1 + net.other(account, 4);
            net.send(to, "Offer", vec![("amount", amount.into())], Payment::Offer(amount));
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Payment, net: &mut Net<Payment>) {
        let fields = |amount: i64| vec![("amount", amount.into())];
        let Some(account) = node.checked_sub(1) else {
            if let Payment::Fee(amount) = message {
                self.fees += amount;
            }
            return;
        };
        let own = &mut self.accounts[account];
        match message {
            Payment::Offer(amount) if net.random.once_in(3) => {
                net.send(from, "Decline", fields(amount), Payment::Decline(amount));
            }
            Payment::Offer(amount) => {
                net.send(from, "Accept", fields(amount), Payment::Accept(amount));
            }
            Payment::Decline(amount) => own.held -= amount,
            Payment::Accept(amount) => {
                own.held -= amount;
                own.balance -= amount;
                let fee = i64::from(net.random.once_in(4)).min(amount - 1).max(0);
                net.send(from, "Pay", fields(amount - fee), Payment::Pay(amount - fee));
                if fee > 0 {
                    net.send(0, "Fee", fields(fee), Payment::Fee(fee));
                }
            }
            Payment::Pay(amount) => own.balance += amount,
            Payment::Fee(_) => {}
        }
    }
}

/// Sources may send as much as the sink gave them credits for; the sink has a buffer of twelve.
pub(super) struct Credits {
    unused: u64,
    received: u64,
    consumed: u64,
    /// The credits of each source and what it has sent.
    sources: [(i64, u64); 4],
}

impl Default for Credits {
    fn default() -> Credits {
        Credits { unused: 0, received: 0, consumed: 0, sources: [(3, 0); 4] }
    }
}

/// A message: an item to consume, or a number of credits for the producer.
pub(super) enum Piece {
    Data,
    Credit(u64),
}

impl Protocol for Credits {
    type Msg = Piece;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        with("sink", "src", "source")
    }

    fn state(&self, node: usize) -> Fields {
        let Some(source) = node.checked_sub(1) else {
            return vec![
                ("received", self.received.into()),
                ("consumed", self.consumed.into()),
                ("buffered", (self.received - self.consumed).into()),
                ("unused", self.unused.into()),
            ];
        };
        let (credits, sent) = self.sources[source];
        vec![("credits", credits.into()), ("sent", sent.into())]
    }

    fn step(&mut self, node: usize, net: &mut Net<Piece>) {
        let Some(source) = node.checked_sub(1) else {
            let some = net.random.below(4).min(self.received - self.consumed);
            self.consumed += some;
            self.unused += some;
            if self.unused > net.random.below(4) {
                let credits = 1 + net.random.below(self.unused);
                self.unused -= credits;
                let to = 1 + net.random.pick(4);
                let fields = vec![("credits", credits.into())];
                net.send(to, "Credit", fields, Piece::Credit(credits));
            }
            return;
        };
        let (credits, sent) = &mut self.sources[source];
        if *credits > 0 && !net.random.once_in(3) || net.mistake(60) {
            *credits -= 1;
            *sent += 1;
            net.send(0, "Data", vec![], Piece::Data);
        }
    }

    fn deliver(&mut self, node: usize, _: usize, message: Piece, _: &mut Net<Piece>) {
        match message {
            Piece::Data => self.received += 1,
            Piece::Credit(credits) => self.sources[node - 1].0 += credits as i64,
        }
    }
}
