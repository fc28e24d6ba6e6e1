//! The vectors with few, small coefficients that the matrix of all events maps to zero.

use super::flow::{Feature, Flow};

/// The modulus: a prime. Sums of products of two residues fit into 128 bits.
const PRIME: i128 = (1 << 61) - 1;
/// The most numbers of one total, if there are not very few numbers.
const PARTS_MAX: usize = 4;
/// With no more numbers than this altogether, totals have one part more.
const VERY_FEW: usize = 22;
/// With more numbers than this altogether, totals of four are not looked for.
const FEW: usize = 28;
/// Totals with a coefficient beyond this are taken for accidents.
const TIMES_MAX: i128 = 4;

/// Features and their coefficients.
pub(super) type Total = Vec<(usize, i64)>;

/// The totals that were found.
pub(super) struct Matrix {
    pub(super) totals: Vec<Total>,
    pub(super) tried: u64,
}

impl Matrix {
    /// The totals of nodes and messages from which all others follow, the shortest first.
    pub(super) fn of(flow: &Flow) -> Matrix {
        let count = flow.features.len();
        let basis = basis(flow);
        let parts_max = match count {
            _ if count <= VERY_FEW => PARTS_MAX + 1,
            _ if count <= FEW => PARTS_MAX,
            _ => PARTS_MAX - 1,
        };
        let (mut known, mut tried) = (Vec::new(), 0);
        for size in 1..=parts_max.min(count) {
            let mut here: Vec<Total> = Vec::new();
            for_each_choice(count, size, &mut |chosen| {
                tried += 1;
                let within = |total: &Total| total.iter().all(|(part, _)| chosen.contains(part));
                if !known.iter().any(within) {
                    here.extend(relation(&basis, chosen).filter(|total| holds(total, flow)));
                }
            });
            // Additions are easier to read than differences.
            here.sort_by_key(|total| total.iter().filter(|(_, times)| *times < 0).count());
            known.extend(here);
        }
        Matrix { totals: independent(known, flow), tried }
    }
}

fn residue(number: i128) -> i128 {
    number.rem_euclid(PRIME)
}

/// The inverse by Fermat's little theorem.
fn inverse(number: i128) -> i128 {
    let (mut result, mut base, mut power) = (1_i128, residue(number), PRIME - 2);
    while power > 0 {
        if power & 1 == 1 {
            result = result * base % PRIME;
        }
        base = base * base % PRIME;
        power >>= 1;
    }
    result
}

/// Reduces a row by rows with leading ones, and adds what is left of it to them.
fn reduce_into(rows: &mut Vec<Vec<i128>>, mut row: Vec<i128>) -> bool {
    for known in rows.iter() {
        let lead = known.iter().position(|x| *x != 0).expect("rows of a basis are not zero");
        let times = row[lead];
        if times != 0 {
            for (x, y) in row.iter_mut().zip(known) {
                *x = residue(*x - times * y % PRIME);
            }
        }
    }
    let Some(lead) = row.iter().position(|x| *x != 0) else { return false };
    let scale = inverse(row[lead]);
    row.iter_mut().for_each(|x| *x = *x * scale % PRIME);
    rows.push(row);
    true
}

/// Rows from which the changes of all events follow.
fn basis(flow: &Flow) -> Vec<Vec<i128>> {
    let mut seen = std::collections::BTreeSet::new();
    let mut rows = Vec::new();
    for row in flow.rows.iter().filter(|row| seen.insert(*row)) {
        let mut whole = vec![0; flow.features.len()];
        for (place, change) in row {
            whole[*place] = residue(i128::from(*change));
        }
        reduce_into(&mut rows, whole);
        if rows.len() == flow.features.len() {
            break;
        }
    }
    rows
}

/// The coefficients with which these columns add up to zero, if they are small and unique.
fn relation(basis: &[Vec<i128>], chosen: &[usize]) -> Option<Total> {
    let mut rows: Vec<Vec<i128>> = Vec::new();
    for row in basis {
        reduce_into(&mut rows, chosen.iter().map(|column| row[*column]).collect());
        if rows.len() == chosen.len() {
            return None;
        }
    }
    if rows.len() + 1 != chosen.len() {
        return None;
    }
    // One column has no leading one: it gets the coefficient 1, the others follow from the last row
    // to the first.
    let leads: Vec<usize> =
        rows.iter().filter_map(|row| row.iter().position(|x| *x != 0)).collect();
    let free = (0..chosen.len()).find(|column| !leads.contains(column))?;
    let mut times = vec![0_i128; chosen.len()];
    times[free] = 1;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| std::cmp::Reverse(leads[*row]));
    for row in order {
        let others = (0..chosen.len()).filter(|column| *column != leads[row]);
        let sum = others.fold(0, |sum, column| residue(sum + rows[row][column] * times[column]));
        times[leads[row]] = residue(-sum);
    }
    let small = |times: i128| if times > PRIME / 2 { times - PRIME } else { times };
    (1..=TIMES_MAX).find_map(|scale| {
        let scaled = times.iter().map(|times| small(residue(times * scale)));
        let scaled: Vec<i128> = scaled.collect();
        let fits = scaled.iter().all(|times| *times != 0 && times.abs() <= TIMES_MAX);
        let sign = if scaled.first().is_some_and(|times| *times < 0) { -1 } else { 1 };
        let parts = chosen.iter().zip(&scaled);
        let parts = parts.map(|(part, times)| (*part, i64::try_from(times * sign).unwrap_or(0)));
        fits.then(|| parts.collect())
    })
}

/// Whether no event changes a total, counted with whole numbers.
fn holds(total: &Total, flow: &Flow) -> bool {
    let times = |place: usize| {
        let own = total.iter().find(|(feature, _)| *feature == place);
        own.map_or(0, |(_, times)| i128::from(*times))
    };
    flow.rows.iter().all(|row| {
        row.iter().map(|(place, change)| times(*place) * i128::from(*change)).sum::<i128>() == 0
    })
}

/// The totals with both nodes and messages that do not follow from shorter ones, nor from
/// relations within nodes and within messages.
fn independent(mut totals: Vec<Total>, flow: &Flow) -> Vec<Total> {
    let is_term = |part: &(usize, i64)| matches!(flow.features[part.0], Feature::Term { .. });
    let mixed = |total: &Total| total.iter().any(is_term) && !total.iter().all(is_term);
    let vector = |total: &Total| {
        let mut whole = vec![0; flow.features.len()];
        for (place, times) in total {
            whole[*place] = residue(i128::from(*times));
        }
        whole
    };
    let mut rows = Vec::new();
    for total in totals.iter().filter(|total| !mixed(total)) {
        reduce_into(&mut rows, vector(total));
    }
    totals.retain(|total| mixed(total) && reduce_into(&mut rows, vector(total)));
    totals
}

/// Calls `see` with each choice of this many of `count` places, in order.
fn for_each_choice(count: usize, size: usize, see: &mut dyn FnMut(&[usize])) {
    let mut chosen: Vec<usize> = (0..size).collect();
    loop {
        see(&chosen);
        let Some(at) = (0..size).rev().find(|at| chosen[*at] < count - size + at) else { return };
        chosen[at] += 1;
        for next in at + 1..size {
            chosen[next] = chosen[next - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(nodes: usize, labels: usize, rows: &[&[i64]]) -> Flow {
        let terms = (0..nodes).map(|term| Feature::Term { kind: 0, term });
        let counts = (0..labels).map(|label| Feature::Count { label: label.to_string() });
        let row = |row: &&[i64]| {
            row.iter().copied().enumerate().filter(|(_, change)| *change != 0).collect()
        };
        let rows = rows.iter().map(row).collect();
        Flow { features: terms.chain(counts).collect(), rows, ..Flow::default() }
    }

    #[track_caller]
    fn check(flow: &Flow, expected: &[Total]) {
        assert_eq!(Matrix::of(flow).totals, expected);
    }

    #[test]
    fn totals_are_found_once() {
        // What leaves a node is on its way, and what arrives is no more; the second number is
        // twice the first, so that a total of it would say the same again.
        check(&flow(2, 1, &[&[-3, -6, 3], &[5, 10, -5], &[0, 0, 0]]), &[vec![(0, 1), (2, 1)]]);
        // The third number takes half of what the first two get.
        check(&flow(2, 1, &[&[2, 0, -1], &[0, 2, -1]]), &[vec![(0, 1), (1, 1), (2, 2)]]);
        // Nothing adds up.
        check(&flow(2, 1, &[&[1, 0, 0], &[0, 1, 0], &[0, 0, 1]]), &[]);
    }

    #[test]
    fn all_choices_are_made() {
        let mut choices = Vec::new();
        for_each_choice(5, 3, &mut |chosen| choices.push(chosen.to_vec()));
        assert_eq!((choices.len(), choices[9].clone()), (10, vec![2, 3, 4]));
        for number in [1, 2, 12_345, PRIME - 1] {
            assert_eq!(residue(number * inverse(number)), 1);
        }
    }
}
