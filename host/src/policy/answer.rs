//! One call and its answer, by whichever version serves.

use crate::imports::{Claim, Imports};
pub(super) use crate::policy::version::Begun;
use crate::policy::version::Ended;
use crate::policy::{Called, Misdeed, Policy, Version};

/// One call, by the version that serves; what only a component decides has no native side.
macro_rules! call {
    ($policy:expr, $export:literal, $imports:expr, |$call:ident| $run:expr) => {{
        let (answer, instance) = call!(@ $policy, $export, $imports, None, |$call| $run, |native, io, again| {
            let _ = (native, &mut io, again);
            Err(Misdeed::Broke("it does not decide this natively".into()))
        }, |_| None);
        Instance::retire(instance);
        answer
    }};
    (
        $policy:expr, $export:literal, $imports:expr,
        |$call:ident| $run:expr, |$native:ident, $io:ident, $again:ident| $natively:expr, $claim:expr
    ) => {{
        let (answer, instance) =
            call!($policy, $export, $imports, None, |$call| $run, |$native, $io, $again| $natively, $claim);
        Instance::retire(instance);
        answer
    }};
    // A call that may follow another one, in its instance, and another one this; with the instance.
    (
        $policy:expr, $export:literal, $imports:expr, $after:expr,
        |$call:ident| $run:expr, |$native:ident, $io:ident, $again:ident| $natively:expr, $claim:expr
    ) => {
        call!(
            @ $policy, $export, $imports, $after,
            |$call| $run, |$native, $io, $again| Ok($natively.await), $claim
        )
    };
    (
        @ $policy:expr, $export:literal, $imports:expr, $after:expr,
        |$call:ident| $run:expr, |$native:ident, $io:ident, $again:ident| $natively:expr, $claim:expr
    ) => {{
        let mut imports: Box<dyn Imports> = Box::new($imports);
        let mut after: Option<Instance> = $after;
        let mut again = false;
        loop {
            let (version, on_trial) = $policy.serving.current();
            let (ended, instance) = match version.begin(imports, again, after.take()).await {
                Ok(Begun::Instance(mut instance)) => {
                    let $call = &mut *instance.made;
                    let answer = $run.await;
                    (instance.end(answer), Some(instance))
                }
                Ok(Begun::Native($native, mut $io)) => {
                    let $again = again;
                    let answer = $natively;
                    ($io.end(answer), None)
                }
                Err(ended) => (ended, None),
            };
            match $policy.judged(($export, &version, on_trial), ended, $claim, again).await {
                Ok(answer) => break (answer, instance),
                Err(back) => (imports, again) = (back, true),
            }
        }
    }};
}
pub(super) use call;

impl Policy {
    /// What becomes of a call that ended: its answer, or another try. One that a version on probation failed is
    /// answered by the version before it.
    pub(super) async fn judged<T>(
        &self,
        (export, version, on_trial): (&'static str, &Version, bool),
        ended: Ended<T>,
        claim: impl Fn(&T) -> Option<Claim>,
        again: bool,
    ) -> Result<Called<T>, Box<dyn Imports>> {
        let mut imports = ended.imports;
        let misdeed = match &ended.answer {
            Err(misdeed) => Some(misdeed.clone()),
            Ok(_) if !on_trial => None,
            Ok(answer) => match (ended.overstepped, claim(answer)) {
                (Some(what), _) => Some(Misdeed::Overstepped(what)),
                (None, Some(claim)) => imports.judge(claim).await.err().map(Misdeed::Lied),
                (None, None) => None,
            },
        };
        let Some(what) = misdeed else {
            if on_trial {
                self.serving.clean(version);
            }
            return Ok(ended.answer.map_err(|what| version.error(export, what)));
        };
        let why = version.error(export, what);
        // Tried again once only: the version before it is proven.
        if self.serving.blame(version, &why) && !again { Err(imports) } else { Ok(Err(why)) }
    }
}
