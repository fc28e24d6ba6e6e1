//! Maximum weight closure: the set of vertices with the greatest weight that has, with each vertex,
//! all that the vertex needs.
//!
//! First the graph is reduced: a vertex that gains nothing by being left out joins the only one that
//! it needs, and a vertex that gains nothing by being taken joins the only one that needs it. What
//! is left is solved as a minimum cut by the pseudoflow algorithm (Hochbaum, Operations Research
//! 2008): trees with a surplus look for trees with a deficit that they need, and push their surplus
//! there. What cannot be pushed anywhere is the closure. The surplus that remains is an upper bound
//! at all times, so that a claim with room to spare is proved early.

/// Vertices with weights, and what each needs. Each vertex needs only vertices before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) weights: Vec<i64>,
    /// The needs of vertex `v` are `needs[start[v]..start[v + 1]]`.
    pub(super) start: Vec<u32>,
    pub(super) needs: Vec<u32>,
}

impl Graph {
    fn len(&self) -> usize {
        self.weights.len()
    }

    pub(super) fn needs(&self, vertex: usize) -> &[u32] {
        &self.needs[self.start[vertex] as usize..self.start[vertex + 1] as usize]
    }
}

/// The result of the search for a closure that weighs more than a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Every closure weighs at most the limit.
    None,
    /// For each vertex, whether it belongs to a closure that weighs more.
    Closure(Vec<bool>),
    /// The work was cut off.
    GaveUp,
}

/// Searches for a closure that weighs more than `limit`, with at most `steps_max` steps.
pub(super) fn heavier(graph: Graph, limit: i64, steps_max: u64) -> Found {
    let mut reduced = Reduced::of(graph);
    loop {
        let before = reduced.graph.len();
        reduced.forward();
        reduced.backward();
        if reduced.graph.len() * 10 >= before * 9 {
            break;
        }
    }
    let rest = limit - reduced.always;
    let mut flow = Pseudoflow::new(&reduced.graph, steps_max);
    match flow.solve(rest) {
        Found::Closure(taken) => {
            let weight: i64 =
                taken.iter().zip(&reduced.graph.weights).map(|(t, w)| i64::from(*t) * w).sum();
            if weight > rest { Found::Closure(reduced.expand(&taken)) } else { Found::None }
        }
        other => other,
    }
}

/// Always in the closure.
const ALWAYS: u32 = u32::MAX;
/// Never in it.
const NEVER: u32 = u32::MAX - 1;
/// No vertex, where one is optional.
const NOBODY: u32 = u32::MAX;
/// More than one vertex.
const MANY: u32 = u32::MAX - 1;

struct Reduced {
    graph: Graph,
    /// For each vertex of the original graph, its vertex in the reduced one.
    place: Vec<u32>,
    /// The weight of what is always taken.
    always: i64,
}

impl Reduced {
    fn of(graph: Graph) -> Reduced {
        let place = (0..graph.len()).map(index).collect();
        Reduced { graph, place, always: 0 }
    }

    /// Joins vertices of weight zero or more with the only one that they need.
    fn forward(&mut self) {
        let graph = &mut self.graph;
        let mut joined: Vec<u32> = Vec::with_capacity(graph.len());
        for vertex in 0..graph.len() {
            let needs =
                &graph.needs[graph.start[vertex] as usize..graph.start[vertex + 1] as usize];
            let mut only = NOBODY;
            for need in needs {
                let need = joined[*need as usize];
                if need == ALWAYS || need == only {
                    continue;
                }
                only = if only == NOBODY { need } else { MANY };
                if only == MANY {
                    break;
                }
            }
            let weight = graph.weights[vertex];
            if weight < 0 || only == MANY {
                joined.push(index(vertex));
            } else if only == NOBODY {
                self.always += weight;
                joined.push(ALWAYS);
            } else {
                graph.weights[only as usize] += weight;
                joined.push(only);
            }
        }
        self.rebuild(&joined);
    }

    /// Joins vertices of weight zero or less with the only one that needs them.
    fn backward(&mut self) {
        let graph = &mut self.graph;
        let mut joined: Vec<u32> = (0..graph.len()).map(index).collect();
        let mut needed_by = vec![NOBODY; graph.len()];
        for vertex in (0..graph.len()).rev() {
            if graph.weights[vertex] <= 0 {
                match needed_by[vertex] {
                    NOBODY => joined[vertex] = NEVER,
                    MANY => {}
                    one => {
                        joined[vertex] = one;
                        graph.weights[one as usize] += graph.weights[vertex];
                    }
                }
            }
            let own = joined[vertex];
            if own == NEVER {
                continue;
            }
            for at in graph.start[vertex]..graph.start[vertex + 1] {
                let by = &mut needed_by[graph.needs[at as usize] as usize];
                *by = if *by == NOBODY || *by == own { own } else { MANY };
            }
        }
        self.rebuild(&joined);
    }

    /// Leaves only the vertices that joined themselves.
    fn rebuild(&mut self, joined: &[u32]) {
        let old = &self.graph;
        let mut number = vec![NEVER; old.len()];
        let mut kept = 0;
        for (vertex, into) in joined.iter().enumerate() {
            if *into == index(vertex) {
                number[vertex] = kept;
                kept += 1;
            }
        }
        let target = |vertex: u32| match joined[vertex as usize] {
            ALWAYS => ALWAYS,
            NEVER => NEVER,
            into => number[into as usize],
        };
        let mut graph = Graph { start: vec![0; kept as usize + 1], ..Graph::default() };
        graph.weights =
            (0..old.len()).filter(|v| number[*v] != NEVER).map(|v| old.weights[v]).collect();
        let edges = |visit: &mut dyn FnMut(u32, u32)| {
            for vertex in 0..old.len() {
                let from = target(index(vertex));
                for need in old.needs(vertex) {
                    let to = target(*need);
                    if from < NEVER && to < NEVER && from != to {
                        visit(from, to);
                    }
                }
            }
        };
        edges(&mut |from, _| graph.start[from as usize + 1] += 1);
        for vertex in 0..kept as usize {
            graph.start[vertex + 1] += graph.start[vertex];
        }
        let mut next = graph.start.clone();
        let mut needs = vec![0; graph.start[kept as usize] as usize];
        edges(&mut |from, to| {
            needs[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        });
        graph.needs = needs;
        for place in self.place.iter_mut().filter(|place| **place < NEVER) {
            *place = target(*place);
        }
        self.graph = graph;
    }

    fn expand(&self, taken: &[bool]) -> Vec<bool> {
        let is = |place: &u32| match *place {
            ALWAYS => true,
            NEVER => false,
            place => taken[place as usize],
        };
        self.place.iter().map(is).collect()
    }
}

/// The trees of the pseudoflow algorithm. Only the root of a tree has a surplus or a deficit.
struct Pseudoflow<'a> {
    graph: &'a Graph,
    excess: Vec<i64>,
    label: Vec<u32>,
    /// The number of vertices by label.
    labels: Vec<u32>,
    parent: Vec<u32>,
    /// The edge to the parent; the flow along each edge; the vertex that has the need.
    edge: Vec<u32>,
    flow: Vec<i64>,
    owner: Vec<u32>,
    in_tree: Vec<bool>,
    first_child: Vec<u32>,
    next_sibling: Vec<u32>,
    previous_sibling: Vec<u32>,
    /// The next child and the next edge to look at.
    scan: Vec<u32>,
    next_edge: Vec<u32>,
    buckets: Vec<Vec<u32>>,
    highest: usize,
    /// The surplus of all trees together.
    surplus: i64,
    steps_left: u64,
}

impl<'a> Pseudoflow<'a> {
    fn new(graph: &'a Graph, steps_max: u64) -> Pseudoflow<'a> {
        let n = graph.len();
        let mut owner = vec![0; graph.needs.len()];
        for vertex in 0..n {
            owner[graph.start[vertex] as usize..graph.start[vertex + 1] as usize]
                .fill(index(vertex));
        }
        let mut flow = Pseudoflow {
            graph,
            excess: graph.weights.clone(),
            label: vec![0; n],
            labels: vec![0; n + 2],
            parent: vec![NOBODY; n],
            edge: vec![NOBODY; n],
            flow: vec![0; graph.needs.len()],
            owner,
            in_tree: vec![false; graph.needs.len()],
            first_child: vec![NOBODY; n],
            next_sibling: vec![NOBODY; n],
            previous_sibling: vec![NOBODY; n],
            scan: vec![NOBODY; n],
            next_edge: graph.start[..n].to_vec(),
            buckets: vec![Vec::new(); 2],
            highest: 1,
            surplus: 0,
            steps_left: steps_max,
        };
        for vertex in 0..n {
            if flow.excess[vertex] > 0 {
                flow.surplus += flow.excess[vertex];
                flow.label[vertex] = 1;
                flow.buckets[1].push(index(vertex));
            }
            flow.labels[flow.label[vertex] as usize] += 1;
        }
        flow
    }

    fn solve(&mut self, limit: i64) -> Found {
        while let Some(root) = self.pop() {
            if self.surplus <= limit {
                return Found::None;
            }
            if self.steps_left == 0 {
                return Found::GaveUp;
            }
            self.process(root);
        }
        let done = index(self.graph.len()) + 1;
        Found::Closure(self.label.iter().map(|label| *label == done).collect())
    }

    fn step(&mut self) {
        self.steps_left = self.steps_left.saturating_sub(1);
    }

    /// The root with a surplus and the highest label. Below a gap in the labels, nothing can be
    /// reached any more: such trees are finished.
    fn pop(&mut self) -> Option<u32> {
        loop {
            while self.highest > 0 && self.buckets[self.highest].is_empty() {
                self.highest -= 1;
            }
            if self.highest == 0 {
                let freed = std::mem::take(&mut self.buckets[0]);
                if freed.is_empty() {
                    return None;
                }
                for root in freed {
                    self.relabel(root, 1);
                    self.buckets[1].push(root);
                }
                self.highest = 1;
                continue;
            }
            if self.labels[self.highest - 1] > 0 {
                return self.buckets[self.highest].pop();
            }
            for root in std::mem::take(&mut self.buckets[self.highest]) {
                self.finish(root);
            }
        }
    }

    fn relabel(&mut self, vertex: u32, label: u32) {
        self.labels[self.label[vertex as usize] as usize] -= 1;
        self.label[vertex as usize] = label;
        self.labels[label as usize] += 1;
        self.next_edge[vertex as usize] = self.graph.start[vertex as usize];
    }

    fn finish(&mut self, root: u32) {
        let done = index(self.graph.len()) + 1;
        let mut todo = vec![root];
        while let Some(vertex) = todo.pop() {
            self.relabel(vertex, done);
            let mut child = self.first_child[vertex as usize];
            while child != NOBODY {
                todo.push(child);
                child = self.next_sibling[child as usize];
            }
        }
    }

    fn bucket(&mut self, root: u32) {
        let label = self.label[root as usize] as usize;
        if self.buckets.len() <= label {
            self.buckets.resize(label + 1, Vec::new());
        }
        self.buckets[label].push(root);
        self.highest = self.highest.max(label);
    }

    /// Looks in the tree for a need in a tree that can take its surplus; the vertices with the
    /// label of the root come first in it.
    fn process(&mut self, root: u32) {
        let mut vertex = root;
        self.scan[vertex as usize] = self.first_child[vertex as usize];
        if self.try_merge(root, vertex) {
            return;
        }
        self.pass_children(vertex);
        loop {
            while self.scan[vertex as usize] != NOBODY {
                let child = self.scan[vertex as usize];
                self.scan[vertex as usize] = self.next_sibling[child as usize];
                vertex = child;
                self.scan[vertex as usize] = self.first_child[vertex as usize];
                if self.try_merge(root, vertex) {
                    return;
                }
                self.pass_children(vertex);
            }
            if self.parent[vertex as usize] == NOBODY {
                break;
            }
            vertex = self.parent[vertex as usize];
            self.pass_children(vertex);
        }
        self.bucket(root);
    }

    /// Goes to the next child with the same label; without one, the vertex gets the next label.
    fn pass_children(&mut self, vertex: u32) {
        let label = self.label[vertex as usize];
        while self.scan[vertex as usize] != NOBODY {
            self.step();
            if self.label[self.scan[vertex as usize] as usize] == label {
                return;
            }
            self.scan[vertex as usize] = self.next_sibling[self.scan[vertex as usize] as usize];
        }
        self.relabel(vertex, label + 1);
    }

    fn try_merge(&mut self, root: u32, vertex: u32) -> bool {
        let wanted = self.label[root as usize] - 1;
        let end = self.graph.start[vertex as usize + 1];
        while self.next_edge[vertex as usize] < end {
            let edge = self.next_edge[vertex as usize];
            let need = self.graph.needs[edge as usize];
            self.step();
            if !self.in_tree[edge as usize] && self.label[need as usize] == wanted {
                self.merge(need, vertex, edge);
                self.push(root);
                return true;
            }
            self.next_edge[vertex as usize] += 1;
        }
        false
    }

    /// Makes `child` the root of its tree and hangs it below `parent`.
    fn merge(&mut self, mut parent: u32, child: u32, mut edge: u32) {
        self.in_tree[edge as usize] = true;
        let mut vertex = child;
        loop {
            self.step();
            let old_edge = std::mem::replace(&mut self.edge[vertex as usize], edge);
            let old_parent = self.parent[vertex as usize];
            if old_parent != NOBODY {
                self.cut(vertex);
            }
            self.hang(vertex, parent);
            if old_parent == NOBODY {
                return;
            }
            (parent, vertex, edge) = (vertex, old_parent, old_edge);
        }
    }

    fn cut(&mut self, child: u32) {
        let parent = std::mem::replace(&mut self.parent[child as usize], NOBODY);
        let before = std::mem::replace(&mut self.previous_sibling[child as usize], NOBODY);
        let after = std::mem::replace(&mut self.next_sibling[child as usize], NOBODY);
        match before {
            NOBODY => self.first_child[parent as usize] = after,
            before => self.next_sibling[before as usize] = after,
        }
        if after != NOBODY {
            self.previous_sibling[after as usize] = before;
        }
    }

    fn hang(&mut self, child: u32, parent: u32) {
        let first = std::mem::replace(&mut self.first_child[parent as usize], child);
        self.parent[child as usize] = parent;
        self.next_sibling[child as usize] = first;
        if first != NOBODY {
            self.previous_sibling[first as usize] = child;
        }
    }

    /// Pushes the surplus of a former root up its new tree. An edge that carries less back than is
    /// pushed leaves the tree, and what is below it becomes a tree of its own.
    fn push(&mut self, from: u32) {
        let mut vertex = from;
        let mut before = 1;
        while self.excess[vertex as usize] > 0 && self.parent[vertex as usize] != NOBODY {
            self.step();
            let parent = self.parent[vertex as usize];
            let edge = self.edge[vertex as usize] as usize;
            let amount = self.excess[vertex as usize];
            before = self.excess[parent as usize];
            let moved = if self.owner[edge] == vertex {
                self.flow[edge] += amount;
                amount
            } else {
                let moved = amount.min(self.flow[edge]);
                self.flow[edge] -= moved;
                moved
            };
            self.excess[vertex as usize] -= moved;
            self.excess[parent as usize] += moved;
            if before < 0 {
                self.surplus -= moved.min(-before);
            }
            if moved < amount {
                self.in_tree[edge] = false;
                self.edge[vertex as usize] = NOBODY;
                self.cut(vertex);
                let next = &mut self.next_edge[parent as usize];
                *next = (*next).min(index(edge));
                self.bucket(vertex);
            }
            vertex = parent;
        }
        if self.excess[vertex as usize] > 0 && before <= 0 {
            self.bucket(vertex);
        }
    }
}

fn index(number: usize) -> u32 {
    u32::try_from(number).expect("event ids are 32 bits")
}

#[cfg(test)]
mod tests {
    use super::{Found, Graph, heavier};

    /// A graph in which vertex `v` needs the vertices in the bits of `needs[v]`.
    fn graph(weights: &[i64], needs: &[u32]) -> Graph {
        let mut graph = Graph { weights: weights.to_vec(), start: vec![0], needs: Vec::new() };
        for bits in needs {
            graph.needs.extend((0..32).filter(|bit| bits >> bit & 1 == 1));
            graph.start.push(graph.needs.len() as u32);
        }
        graph
    }

    /// The weight of the heaviest closure, by trying all sets.
    fn heaviest(weights: &[i64], needs: &[u32]) -> i64 {
        let closed =
            |set: &u32| (0..needs.len()).all(|v| set >> v & 1 == 0 || needs[v] & set == needs[v]);
        let weigh =
            |set: u32| (0..weights.len()).filter(|v| set >> v & 1 == 1).map(|v| weights[v]).sum();
        (0..1_u32 << weights.len()).filter(closed).map(weigh).max().expect("the empty set")
    }

    #[test]
    fn the_heaviest_closure_is_found() {
        let mut state = 7_u64;
        let mut below = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut positive = 0;
        for case in 0..6_000 {
            let n = 1 + below(11) as usize;
            let dense = 1 + below(5);
            let weights: Vec<i64> = (0..n).map(|_| below(9) as i64 - 4).collect();
            let needs: Vec<u32> =
                (0..n).map(|v| (0..v).filter(|_| below(6) < dense).map(|u| 1 << u).sum()).collect();
            let best = heaviest(&weights, &needs);
            positive += usize::from(best > 0);
            let graph = graph(&weights, &needs);
            assert_eq!(heavier(graph.clone(), best, 1 << 30), Found::None, "case {case}");
            let Found::Closure(taken) = heavier(graph.clone(), best - 1, 1 << 30) else {
                panic!("case {case}: {weights:?} {needs:?} has a closure of {best}");
            };
            let weight: i64 = (0..n).filter(|v| taken[*v]).map(|v| weights[v]).sum();
            assert_eq!(weight, best, "case {case}");
            let closed = |v: usize| graph.needs(v).iter().all(|need| taken[*need as usize]);
            assert!((0..n).all(|v| !taken[v] || closed(v)), "case {case}");
        }
        // Most cases are not decided by the empty closure.
        assert!(positive > 3_000, "{positive}");
    }
}
