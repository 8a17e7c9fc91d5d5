use crate::execution::{Execution, each_candidate};
use crate::models::Model;
use crate::outcome::run;
use crate::parse::{Test, Verdict};
use crate::program::{ALL, Architecture, Fence, Kind, Kinds, LOADS, STORES};
use crate::relation::Relation;

const SB: &str = "RISCV SB
Expect=Allowed
Variant=fences | P0 lw a1,0(s3) => fence rw,rw; lw a1,0(s3) & P1 lw a1,0(s3) => fence rw,rw; lw a1,0(s3) | Forbidden
{ 0:s2=x; 0:s3=y; 1:s2=y; 1:s3=x; }
 P0           | P1           ;
 li a0,1      | li a0,1      ;
 sw a0,0(s2)  | sw a0,0(s2)  ;
 lw a1,0(s3)  | lw a1,0(s3)  ;
";

fn verdict(text: &str, architecture: Architecture) -> Result<Verdict, String> {
    run(&Test::parse(text)?[0], None, &Model { architecture, dropped: None }).map(|outcome| outcome.verdict)
}

#[test]
fn condition_without_candidates_is_an_error() {
    let of = |condition: &str| verdict(&format!("{SB}{condition}"), Architecture::RiscV);
    assert_eq!(of("exists (0:a1=0 /\\ 1:a1=0)"), Ok(Verdict::Allowed));
    assert_eq!(of("forall (0:a1=1 \\/ 1:a1=1)"), Ok(Verdict::Allowed));
    assert_eq!(of("exists (0:a1=0 /\\ (1:a1=1 \\/ ~(x=0 \\/ 1:a1=1)))"), Ok(Verdict::Allowed));
    assert!(of("exists (0:a1=7)").is_err());
}

#[test]
fn variant_of_a_missing_line_is_an_error() {
    let text = format!("{SB}exists (0:a1=0 /\\ 1:a1=0)").replace("P0 lw a1,0(s3) =>", "P0 lw a1,0(s4) =>");
    let test = Test::parse(&text).unwrap().remove(0);
    assert!(test.threads(test.variants.first()).is_err());
    assert!(test.threads(None).is_ok());
}

#[test]
fn annotation_that_an_instruction_cannot_have_is_an_error() {
    let of = |line: &str| crate::riscv::instruction(line);
    for line in
        ["sw.rl a0,0(s2)", "lw.aq a1,0(s3)", "lw.w a1,0(s3)", "amoadd a1,a0,(s3)", "lr.w.rl.aq a1,(s3)"]
    {
        assert_eq!(of(line), None, "{line}");
    }
    assert_eq!(of("amoadd.w.aq.rl a1,a0,(s3)"), of("amoadd.w.aqrl a1,a0,(s3)"));
    assert_ne!(of("amoadd.w.aq.rl a1,a0,(s3)"), of("amoadd.w.aq a1,a0,(s3)"));
}

/// Returns `true` if there is a global memory order, as the definition of RVWMO words it: it contains preserved
/// program order, and each load returns the last store that precedes it in this order or in program order. It
/// considers each order of the accesses, so it is slow, and shares nothing with the model but `ppo`.
fn has_memory_order(x: &Execution, ppo: &Relation) -> bool {
    let accesses: Vec<_> = (0..x.len()).filter(|&at| !matches!(x.events[at].kind, Kind::Fence(_))).collect();
    extend(x, ppo, &accesses, &mut Vec::new())
}

fn extend(x: &Execution, ppo: &Relation, accesses: &[usize], order: &mut Vec<usize>) -> bool {
    if order.len() == accesses.len() {
        return loads_agree(x, order) && x.co.pairs().all(|(a, b)| position(order, a) < position(order, b));
    }
    accesses.iter().filter(|at| !order.contains(at)).copied().collect::<Vec<_>>().into_iter().any(|next| {
        let is_ready = accesses.iter().all(|&before| !ppo.contains(before, next) || order.contains(&before));
        is_ready && {
            order.push(next);
            let found = extend(x, ppo, accesses, order);
            order.pop();
            found
        }
    })
}

fn position(order: &[usize], event: usize) -> usize {
    order.iter().position(|at| *at == event).expect("every access is in the order")
}

fn loads_agree(x: &Execution, order: &[usize]) -> bool {
    order.iter().filter(|&&at| x.events[at].kind == Kind::Load).all(|&load| {
        let is_candidate = |&&store: &&usize| {
            x.events[store].kind == Kind::Store
                && x.events[store].location == x.events[load].location
                && (position(order, store) < position(order, load) || x.po.contains(store, load))
        };
        let last = order.iter().filter(is_candidate).max_by_key(|&&store| position(order, store));
        let source = (0..x.len()).find(|&store| x.rf.contains(store, load));
        last.copied() == source
    })
}

/// Preserved program order of plain loads, stores and fences, by the rules that concern them.
fn ppo(x: &Execution) -> Relation {
    let is = |at: usize, Kinds(loads, stores): Kinds| match x.events[at].kind {
        Kind::Load => loads,
        Kind::Store => stores,
        Kind::Fence(_) => false,
    };
    let source = |load: usize| (0..x.len()).find(|&store| x.rf.contains(store, load));
    let between = |a: usize, b: usize| a + 1..b;
    Relation::of(x.len(), |a, b| {
        if !x.po.contains(a, b) || !is(a, ALL) || !is(b, ALL) {
            return false;
        }
        let same = x.events[a].location == x.events[b].location;
        let fenced = between(a, b).any(|at| match x.events[at].kind {
            Kind::Fence(Fence::Between(before, after)) => is(a, before) && is(b, after),
            Kind::Fence(Fence::Tso) => is(a, LOADS) || is(b, STORES),
            _ => false,
        });
        let stores_between =
            between(a, b).any(|at| is(at, STORES) && x.events[at].location == x.events[a].location);
        let depends = |on: usize, at: usize| x.address.contains(on, at) || x.data.contains(on, at);
        same && is(b, STORES)
            || same && is(a, LOADS) && is(b, LOADS) && !stores_between && source(a) != source(b)
            || fenced
            || depends(a, b)
            || x.control.contains(a, b) && is(b, STORES)
            || is(b, LOADS) && between(a, b).any(|m| is(m, STORES) && depends(a, m) && source(b) == Some(m))
            || is(b, STORES) && between(a, b).any(|m| x.address.contains(a, m))
    })
}

#[test]
fn rvwmo_agrees_with_the_definition_by_memory_orders() {
    let mut compared = 0;
    for entry in std::fs::read_dir("published/riscv64").unwrap() {
        let test = Test::parse(&std::fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap().remove(0);
        let model = Model { architecture: Architecture::RiscV, dropped: None };
        for variant in std::iter::once(None).chain(test.variants.iter().map(Some)) {
            each_candidate(&test, variant, &mut |x| {
                let is_plain =
                    x.events.iter().all(|event| event.order == Default::default() && event.pair.is_none());
                let accesses = x.events.iter().filter(|event| !matches!(event.kind, Kind::Fence(_))).count();
                if is_plain && accesses <= 7 {
                    assert_eq!(
                        model.is_consistent(x),
                        has_memory_order(x, &ppo(x)),
                        "{} {variant:?}",
                        test.name
                    );
                    compared += 1;
                }
            })
            .unwrap();
        }
    }
    assert!(compared > 80, "{compared} executions compared");
}
