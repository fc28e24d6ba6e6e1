//! Random trees and states. The generator is SplitMix64, so the meaning of a seed never changes.

use everhold_property::{
    Aggregate, BinaryOp, Binder, Bound, Domain, Expr, ExprKind, History, Ident, Literal, Modality,
    Over, Pattern, Property, Quantifier, Sampling, Scope, Share, Span, UnaryOp,
};

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Any property that the grammar allows, whether it makes sense or not.
pub(crate) fn property(random: &mut Random) -> Property {
    let names = ["p", "one leader per term", "odd \"name\"\n\t\\", "ünïcode ∀"];
    let scopes = [Scope::EveryCut, Scope::Quiet, Scope::AllQuiet, Scope::Delivery, Scope::Chains];
    let within = bound(random);
    let modality = random.pick(&[
        Modality::Always,
        Modality::Sometimes,
        Modality::Eventually { within },
        Modality::Finally { within },
        Modality::LeadsTo { within },
    ]);
    let body = match modality {
        Modality::LeadsTo { .. } => leads_to(random),
        _ => expr(random, 5),
    };
    let scope = random.pick(&scopes);
    let sampling = sampling(random, modality, scope, &body);
    Property {
        name: random.pick(&names).into(),
        modality,
        scope,
        sampling,
        body,
        span: Span::default(),
    }
}

/// Only what the parser takes: keys of properties about a key, moments of those about a state.
fn sampling(random: &mut Random, modality: Modality, scope: Scope, body: &Expr) -> Sampling {
    let plain = matches!(modality, Modality::Always | Modality::Sometimes);
    let of_states = !matches!(scope, Scope::Delivery | Scope::Chains);
    let past = body.any(&mut |expr| matches!(expr.kind, ExprKind::History { .. }));
    let keyed = body.any(&mut |expr| matches!(&expr.kind, ExprKind::Name(name) if name == "key"));
    let every = random.pick(&[None, Some(1_000), Some(1_500_000), Some(5_000_000_000)]);
    let shares = [Share { some: 1, of: 100 }, Share { some: 3, of: 3 }, Share { some: 2, of: 7 }];
    let keys = random.pick(&shares);
    Sampling {
        keys: (keyed && random.chance(50)).then_some(keys),
        every: every.filter(|_| plain && of_states && !past),
    }
}

fn bound(random: &mut Random) -> Option<Bound> {
    let nanos = random.pick(&[0, 1, 1_000, 1_500, 200_000_000, 5_000_000_000, 7_200_000_000_000]);
    let bounds = [None, Some(Bound::Nanos(nanos)), Some(Bound::Steps(1)), Some(Bound::Steps(20))];
    random.pick(&bounds)
}

fn leads_to(random: &mut Random) -> Expr {
    let sides = (Box::new(expr(random, 4)), Box::new(expr(random, 4)));
    let body = Expr::new(ExprKind::LeadsTo(sides.0, sides.1));
    if random.chance(50) {
        return body;
    }
    let quantifier = Quantifier::Forall;
    Expr::new(ExprKind::Quantified { quantifier, over: over(random, 2), body: Box::new(body) })
}

fn ident(random: &mut Random) -> Ident {
    Ident::new(random.pick(&["a", "b", "key", "term", "prefix", "is", "all", "within", "x_1", "é"]))
}

fn field(random: &mut Random) -> Ident {
    Ident::new(random.pick(&["term", "in", "nodes", "odd name", "", "9", "log"]))
}

fn literal(random: &mut Random) -> Literal {
    match random.below(9) {
        0 => Literal::Null,
        1 => Literal::Bool(random.chance(50)),
        2 => Literal::Int(random.pick(&[0, 1, -1, 42, -7, i64::MAX])),
        3 => Literal::Float(random.pick(&[0.0, 1.5, -2.0, 1e300, 1e-7])),
        4 => Literal::Text(random.pick(&["", "leader", "q\"\\\n\u{7}", "∀"]).into()),
        5 => Literal::Bytes(random.pick(&[vec![], vec![0, 255]])),
        6 => Literal::Duration(random.pick(&[0, 1, 5_000_000_000, -200_000_000])),
        _ => Literal::Int(random.next() as i64 >> 8),
    }
}

fn expr(random: &mut Random, depth: u32) -> Expr {
    if depth == 0 {
        let leaf = [ExprKind::Literal(literal(random)), ExprKind::Name(ident(random).name)];
        return Expr::new(random.pick(&leaf));
    }
    let boxed = |random: &mut Random| Box::new(expr(random, depth - 1));
    let items = |random: &mut Random| {
        let n = random.below(3);
        (0..n).map(|_| expr(random, depth - 1)).collect::<Vec<_>>()
    };
    Expr::new(match random.below(16) {
        0 => ExprKind::Field(boxed(random), field(random)),
        1 => ExprKind::Index(boxed(random), boxed(random)),
        2 => ExprKind::Call(
            Ident::new(random.pick(&["len", "f", "min", "set"])),
            call(random, depth),
        ),
        3 => ExprKind::List(items(random)),
        4 => ExprKind::Set(items(random)),
        5 => ExprKind::Map(items(random).into_iter().map(|key| (key.clone(), key)).collect()),
        6 => ExprKind::Record(items(random).into_iter().map(|e| (field(random), e)).collect()),
        7 => ExprKind::Unary(random.pick(&[UnaryOp::Not, UnaryOp::Neg]), boxed(random)),
        8 => ExprKind::Is(boxed(random), field(random)),
        9 => ExprKind::Quantified {
            quantifier: random.pick(&[Quantifier::Forall, Quantifier::Exists]),
            over: over(random, depth - 1),
            body: boxed(random),
        },
        10 => aggregate(random, depth),
        11 => history(random, depth),
        _ => ExprKind::Binary(random.pick(&OPERATORS), boxed(random), boxed(random)),
    })
}

/// Arguments that cannot be mistaken for a comprehension: `min(a in b)` is one.
fn call(random: &mut Random, depth: u32) -> Vec<Expr> {
    let first = Expr::new(ExprKind::Literal(literal(random)));
    let second = expr(random, depth - 1);
    random.pick(&[vec![], vec![first.clone()], vec![first, second]])
}

fn aggregate(random: &mut Random, depth: u32) -> ExprKind {
    let op = random.pick(&Aggregate::ALL).1;
    let body =
        (op != Aggregate::Count || random.chance(50)).then(|| Box::new(expr(random, depth - 1)));
    ExprKind::Aggregate { op, over: over(random, depth - 1), body }
}

fn history(random: &mut Random, depth: u32) -> ExprKind {
    let (op, steps) = random.pick(&[
        (History::Previous, 1),
        (History::Previous, 3),
        (History::Changed, 1),
        (History::Window, 1),
        (History::Window, 3),
    ]);
    ExprKind::History { op, steps, body: Box::new(expr(random, depth - 1)) }
}

fn over(random: &mut Random, depth: u32) -> Over {
    let binders = (0..=random.below(2)).map(|_| binder(random, depth)).collect();
    Over { binders, guard: random.chance(40).then(|| Box::new(expr(random, depth))) }
}

fn binder(random: &mut Random, depth: u32) -> Binder {
    let pattern = match random.below(3) {
        0 => Pattern::Entry(ident(random), ident(random)),
        n => Pattern::Names((0..n).map(|_| ident(random)).collect()),
    };
    let kinds = [None, Some("server".to_owned()), Some("odd kind".into()), Some("all".into())];
    let domain = match random.below(3) {
        0 => Domain::Nodes { kind: random.pick(&kinds), all: random.chance(30) },
        1 => Domain::Range {
            from: Box::new(expr(random, depth)),
            to: Box::new(expr(random, depth)),
            inclusive: random.chance(50),
        },
        _ => Domain::Values(Box::new(expr(random, depth))),
    };
    Binder { pattern, domain }
}

const OPERATORS: [BinaryOp; 20] = [
    BinaryOp::Implies,
    BinaryOp::Or,
    BinaryOp::And,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
    BinaryOp::In,
    BinaryOp::NotIn,
    BinaryOp::Subset,
    BinaryOp::Disjoint,
    BinaryOp::Prefix,
    BinaryOp::Subsequence,
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
];
