//! Whether to try again, and after what wait. Pure: no clock, no sleep, no
//! randomness of its own.
//!
//! Waits of our own grow by doubling from the base to the cap and are spread
//! over their upper two fifths. Not over the whole: a wait near zero is no wait,
//! and many runs that fail together spread well enough over that.

use std::time::{Duration, SystemTime};

use super::errors::{Again, Failure};

/// The longest wait that a server may name and still be obeyed.
pub(crate) const LONGEST_NAMED: Duration = Duration::from_secs(60);

/// The bounds, out of the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Tries for one model call, the first included.
    pub max_attempts: u32,
    /// First wait of our own.
    pub base: Duration,
    /// Longest wait of our own.
    pub cap: Duration,
}

/// What to do after a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Try again after this.
    Wait(Duration),
    /// The failure is final.
    GiveUp,
    /// The server asks for a wait longer than we sit through.
    TooLong(Duration),
}

/// The next step after `tries` tries, the last of which gave `failure`.
/// `jitter` is uniform in 0..1.
pub(crate) fn step(bounds: Bounds, tries: u32, failure: &Failure, jitter: f64) -> Step {
    let allowed = match failure.again {
        Again::Yes => bounds.max_attempts,
        Again::Once => bounds.max_attempts.min(2),
        Again::No => 1,
    };
    if tries >= allowed {
        return Step::GiveUp;
    }
    let jitter = jitter.clamp(0.0, 1.0);
    match failure.retry_after {
        Some(named) if named > LONGEST_NAMED => Step::TooLong(named),
        // Upwards only: the server said when, and others were told the same.
        Some(named) => Step::Wait(named + (named / 8).min(Duration::from_secs(1)).mul_f64(jitter)),
        None => {
            let doublings = tries.saturating_sub(1).min(20);
            let full = bounds.base.saturating_mul(1 << doublings).min(bounds.cap);
            Step::Wait(full.mul_f64(0.6 + 0.4 * jitter))
        }
    }
}

/// The wait that the headers of an answer ask for.
pub(crate) fn named_wait(headers: &http::HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(str::trim)
    };
    if let Some(millis) = text("retry-after-ms").and_then(|t| t.parse::<f64>().ok()) {
        return seconds(millis / 1000.0);
    }
    let value = text("retry-after")?;
    if let Ok(number) = value.parse::<f64>() {
        return seconds(number);
    }
    // A date in the past is a clock that differs: our own wait then.
    let date = httpdate::parse_http_date(value).ok()?;
    date.duration_since(now).ok()
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::provider::ErrorClass;

    const BOUNDS: Bounds = Bounds {
        max_attempts: 4,
        base: Duration::from_millis(20),
        cap: Duration::from_millis(100),
    };

    fn failure(class: ErrorClass) -> Failure {
        Failure::new(class, "x")
    }

    #[test]
    fn own_waits_double_up_to_the_cap() {
        let f = failure(ErrorClass::Overloaded);
        let ms = |tries, jitter| step(BOUNDS, tries, &f, jitter);
        assert_eq!(ms(1, 0.0), Step::Wait(Duration::from_millis(12)));
        assert_eq!(ms(1, 1.0), Step::Wait(Duration::from_millis(20)));
        assert_eq!(ms(2, 1.0), Step::Wait(Duration::from_millis(40)));
        assert_eq!(ms(3, 1.0), Step::Wait(Duration::from_millis(80)));
        assert_eq!(ms(4, 1.0), Step::GiveUp);
        let many = Bounds {
            max_attempts: u32::MAX,
            ..BOUNDS
        };
        assert_eq!(step(many, 400, &f, 1.0), Step::Wait(BOUNDS.cap));
    }

    #[test]
    fn a_named_wait_is_obeyed_up_to_a_minute() {
        let mut f = failure(ErrorClass::RateLimit);
        f.retry_after = Some(Duration::from_secs(2));
        assert_eq!(step(BOUNDS, 1, &f, 0.0), Step::Wait(Duration::from_secs(2)));
        assert_eq!(
            step(BOUNDS, 1, &f, 1.0),
            Step::Wait(Duration::from_millis(2250))
        );
        f.retry_after = Some(Duration::ZERO);
        assert_eq!(step(BOUNDS, 1, &f, 1.0), Step::Wait(Duration::ZERO));
        f.retry_after = Some(Duration::from_secs(61));
        assert_eq!(
            step(BOUNDS, 1, &f, 0.0),
            Step::TooLong(Duration::from_secs(61))
        );
    }

    #[test]
    fn what_cannot_get_better_is_not_tried_again() {
        use ErrorClass as C;
        for class in [
            C::Auth,
            C::Quota,
            C::BadRequest,
            C::ContextOverflow,
            C::OutputTruncated,
        ] {
            assert_eq!(
                step(BOUNDS, 1, &failure(class), 0.5),
                Step::GiveUp,
                "{class:?}"
            );
        }
        let empty = failure(C::EmptyResponse);
        assert!(matches!(step(BOUNDS, 1, &empty, 0.5), Step::Wait(_)));
        assert_eq!(step(BOUNDS, 2, &empty, 0.5), Step::GiveUp);
    }

    #[test]
    fn headers_give_seconds_milliseconds_and_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
        let wait = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            named_wait(&headers, now)
        };
        assert_eq!(wait("retry-after", "2"), Some(Duration::from_secs(2)));
        assert_eq!(
            wait("retry-after", " 1.5 "),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            wait("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        let later = httpdate::fmt_http_date(now + Duration::from_secs(7));
        assert_eq!(wait("retry-after", &later), Some(Duration::from_secs(7)));
        let past = httpdate::fmt_http_date(now - Duration::from_secs(7));
        for junk in [past.as_str(), "-1", "soon", "NaN", "inf", ""] {
            assert_eq!(wait("retry-after", junk), None, "{junk}");
        }
        assert_eq!(named_wait(&HeaderMap::new(), now), None);
    }

    proptest! {
        #[test]
        fn a_wait_is_bounded(tries in 0u32..1000, jitter in -1.0f64..2.0, named in proptest::option::of(0u64..10_000)) {
            let mut f = failure(ErrorClass::Overloaded);
            f.retry_after = named.map(Duration::from_secs);
            if let Step::Wait(wait) = step(BOUNDS, tries, &f, jitter) {
                prop_assert!(wait <= LONGEST_NAMED + Duration::from_secs(1));
                prop_assert!(tries < 4);
            }
        }
    }
}
