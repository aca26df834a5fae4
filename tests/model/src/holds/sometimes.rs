//! What has to happen at some time in a run, so that a run without a violation shows something.

use crate::sometimes::sometimes;

sometimes! {
    /// a check is let through
    LetThrough,
    /// a second one waits for the one that is let through
    SecondWaits,
    /// another check is let through after the first one
    AnotherAfterIt,
    /// the key of a builder that was killed ages out
    AgesOutAfterAKill,
    /// a create that got no answer is found to have landed, and its check is let through
    LostCreateIsFound,
    /// a keeping that got no answer is found to have landed, and the key is kept on
    LostKeepIsFound,
    /// a let-through check is stopped by its builder's own clock
    StopsByItsClock,
    /// a keeping finds that the key is gone, or another's
    KeyIsLost,
    /// a younger check than the one looked at is taken, and handed back
    YoungerIsHandedBack,
    /// a plan begins while a check is let through
    BeginsUnderALetThrough,
    /// a plan begins while an ordinary check runs
    BeginsUnderACheck,
    /// a plan begins between the look and the taking, and the check is handed back
    HeldAtTheSecondLook,
    /// no plan builds, and a check is taken as usual
    TakenAsUsual,
    /// plans that cannot be read hold no check
    FaultHoldsNone,
    /// a write lands after its sender stopped waiting for it
    LandsLate,
    /// a keeping is cut off
    IsCutOff,
    /// a plan's key ages out
    PlanAgesOut,
    /// a plan's key that aged out is put again
    PlanIsPutAgain,
    /// a plan goes on under a new controller
    PlanGoesOn,
    /// a controller finds that its plan is another one's to say
    PlanIsLost,
    /// a plan ends
    PlanEnds,
    /// the store's clock steps while a check is let through
    StepsUnderALetThrough,
    /// the clock of a builder whose check is let through loses a tick
    LosesATick,
}
