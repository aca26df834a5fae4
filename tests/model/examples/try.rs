//! scratch
use incumbent_model::*;
struct P;
impl incumbent_policy::Decisions for P { const NAME: &'static str="x"; const VERSION: &'static str="0.1.0"; }
fn main(){
    let a: Vec<String> = std::env::args().collect();
    let mut c = Config::two(a[1].parse().unwrap());
    for w in &a[2..] {
        let (k,v) = w.split_once('=').unwrap();
        let n: u64 = v.parse().unwrap_or(0);
        let b = n as u8;
        match k { "inst"=>c.instances=b,"obj"=>c.objects=b,"thr"=>c.threads=n as usize,"most"=>c.most=n,
        "rule"=>c.rule=match v {"t"=>incumbent_policy::lease::Vacancy::Trusted,"w"=>incumbent_policy::lease::Vacancy::Watched,_=>incumbent_policy::lease::Vacancy::Delayed},
        "exp"=>c.expiry=match v {"m"=>Expiry::Marked,"u"=>Expiry::Unmarked,_=>Expiry::Either},
        "slow"=>c.slow=b,"looks"=>c.faults.looks=b,"floor"=>c.one_floor=n==1,
        "ttl"=>c.ticks.ttl=b,"renew"=>c.ticks.renew=b,"margin"=>c.ticks.margin=b,
        "inv"=>c.judged=Invariant::ALL.iter().copied().filter(|i| *i as u8 & b !=0).collect(),
        "lost"=>c.faults.lost_answer=b,"late"=>c.faults.late=b,"dup"=>c.faults.duplicate=b,"unav"=>c.faults.unavailable=b,"den"=>c.faults.denied=b,
        "stale"=>c.faults.stale=b,"cut"=>c.faults.cut=b,"crash"=>c.faults.crash=b,"rel"=>c.faults.release=b,"ask"=>c.faults.ask=b,"wipe"=>c.faults.wipe=b,
        "fc"=>c.faults.forget_create=b,"fr"=>c.faults.forget_renewal=b,"step"=>c.faults.step=b,"gains"=>c.faults.gains=b,"loses"=>c.faults.loses=b,
        _=>panic!("{k}") }
    }
    let t=std::time::Instant::now();
    let r=explore::<P>(&c).unwrap();
    let s=t.elapsed().as_secs_f64();
    println!("states {} depth {} exhausted {} in {:.1}s = {:.0}/s", r.states,r.depth,r.exhausted,s,r.states as f64/s);
    let not: Vec<_> = Sometimes::ALL.iter().filter(|x| !r.reached.has(**x)).collect();
    println!("not reached {not:?}");
    if let Some(v)=r.violation { println!("VIOLATION {:?} in {} steps", v.invariant, v.path.len()); for l in v.path { println!("  {l}"); } }
}
