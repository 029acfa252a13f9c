//! A frame read where it lies: identities and floats of a batch without making one.
//!
//! Invariants: [`View::read`] checks what [`Batch::decode_wide`](crate::Batch::decode_wide) checks of a frame, and of a
//! dictionary all but its series; each column is checked to be of one length before the first row of it is given out.
//! Nothing is allocated but the strings' references and the classes of a dictionary.
//! Limits: none on what the labels unfold to, which a caller that copies them has to count.
//! Failure: as [`Batch::decode`](crate::Batch::decode); a string that is not UTF-8 or a series that breaks the format
//! of a dictionary is an error where it is met.

use planus::ReadAsRoot;

use super::decode::SeriesCounts;
use super::dictionary::Dictionary;
use super::frame::{FLAG_DEFINITIONS, Parts, SERIES_MAX, SERIES_WIDE_MAX, malformed, parts, parts_unverified};
use super::generated::ogive::wire as fb;
use super::{decode, varint};
use crate::{Error, SeriesId, SourceId, Tenant};

/// A checked frame of a batch.
pub struct View<'a> {
    version: u16,
    tenant: Tenant,
    dictionary: Option<Dictionary<'a>>,
    message: fb::BatchRef<'a>,
}

/// The floats of a batch, in columns of one length.
#[derive(Clone, Copy)]
pub struct Floats<'a> {
    series: planus::Vector<'a, u32>,
    times: planus::Vector<'a, i64>,
    values: planus::Vector<'a, f64>,
}

impl<'a> View<'a> {
    /// Views a frame of a sender.
    ///
    /// # Errors
    /// As [`Batch::decode`](crate::Batch::decode).
    pub fn read(frame: &'a [u8]) -> Result<Self, Error> {
        Self::from_parts(parts(frame)?)
    }

    /// As [`View::read`], for a frame whose bytes are already protected, as by the checksum of a journal's record: the
    /// frame's own checksum is not computed again. Everything else is still checked.
    ///
    /// # Errors
    /// As [`View::read`].
    pub fn read_trusted(frame: &'a [u8]) -> Result<Self, Error> {
        Self::from_parts(parts_unverified(frame)?)
    }

    fn from_parts(Parts { version, flags, tenant, declared, message, .. }: Parts<'a>) -> Result<Self, Error> {
        if flags & FLAG_DEFINITIONS != 0 {
            return Err(malformed("the frame defines series and is no batch"));
        }
        let message = fb::BatchRef::read_as_root(message).map_err(wire)?;
        let dictionary = decode::dictionary(version, declared, &message, SERIES_WIDE_MAX)?;
        Ok(Self { version, tenant, dictionary, message })
    }

    /// Whose series these are.
    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The sender.
    ///
    /// # Errors
    /// When the message is invalid.
    pub fn source(&self) -> Result<SourceId, Error> {
        let (low, high) = (self.message.source_low().map_err(wire)?, self.message.source_high().map_err(wire)?);
        Ok(SourceId(u128::from(high) << 64 | u128::from(low)))
    }

    /// How many series it declares with their labels; the known ones are numbered after them.
    ///
    /// # Errors
    /// When the message is invalid.
    pub fn declared(&self) -> Result<usize, Error> {
        if let Some(dictionary) = &self.dictionary {
            return Ok(dictionary.len());
        }
        Ok(self.message.series().map_err(wire)?.map_or(0, |series| series.len()))
    }

    /// Names and values of the labels of each declared series, in turn.
    ///
    /// # Errors
    /// When the message is invalid; a string may still be.
    pub fn each_label(&self, mut visit: impl FnMut(usize, &'a str)) -> Result<(), Error> {
        if let Some(dictionary) = &self.dictionary {
            return dictionary.each(|at, class, values| {
                class.names.iter().zip(values).for_each(|(name, value)| {
                    visit(at, name);
                    visit(at, value);
                });
                Ok(())
            });
        }
        let Some(series) = self.message.series().map_err(wire)? else { return Ok(()) };
        for (at, def) in series.iter().enumerate() {
            for text in def.and_then(|def| def.labels()).map_err(wire)?.iter() {
                visit(at, text.map_err(wire)?);
            }
        }
        Ok(())
    }

    /// The identities of the series that it only names.
    ///
    /// # Errors
    /// When the message is invalid or of a version without them.
    pub fn known(&self) -> Result<impl ExactSizeIterator<Item = SeriesId> + use<'a>, Error> {
        let known = self.message.known().map_err(wire)?;
        if let Some(known) = &known {
            let counts = SeriesCounts { declared: self.declared()?, known: known.len(), max: SERIES_MAX };
            decode::check_known(self.version, counts)?;
        }
        Ok(known.unwrap_or_else(planus::Vector::new_empty).iter().map(decode::series_id))
    }

    /// Its floats; none when it has none.
    ///
    /// # Errors
    /// When the message is invalid or its columns have different lengths.
    pub fn floats(&self) -> Result<Option<Floats<'a>>, Error> {
        let Some(column) = self.message.floats().map_err(wire)? else { return Ok(None) };
        let (series, times, values) =
            (column.series().map_err(wire)?, column.time_ns().map_err(wire)?, column.value().map_err(wire)?);
        decode::check_floats(self.version, series.len(), times.len(), values.len())?;
        Ok(Some(Floats { series, times, values }))
    }

    /// Its histograms with integer counts; none when it has none.
    ///
    /// # Errors
    /// When the message is invalid or its columns have different lengths.
    pub fn histograms(&self) -> Result<Option<Histograms<'a>>, Error> {
        let Some(column) = self.message.histograms().map_err(wire)? else { return Ok(None) };
        match decode::Shape::new(self.version, &column) {
            Ok(shape) => Ok(Some(Histograms { shape })),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Whether it has samples that are no floats.
    ///
    /// # Errors
    /// When the message is broken.
    pub fn has_others(&self) -> Result<bool, Error> {
        let message = &self.message;
        Ok(message.histograms().map_err(wire)?.is_some()
            || message.float_histograms().map_err(wire)?.is_some()
            || message.texts().map_err(wire)?.is_some())
    }
}

fn wire(error: planus::Error) -> Error {
    malformed(error.to_string())
}

impl Floats<'_> {
    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Series, time and value of each.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(u32, i64, f64)) {
        let values = self.values.iter();
        match (self.series.is_empty(), self.times.get(0).filter(|_| self.times.len() == 1)) {
            (true, Some(time)) => values.zip(0..).for_each(|(value, series)| visit(series, time, value)),
            (true, None) => {
                values.zip(self.times.iter()).zip(0..).for_each(|((value, time), series)| visit(series, time, value))
            }
            (false, Some(time)) => {
                values.zip(self.series.iter()).for_each(|(value, series)| visit(series, time, value))
            }
            (false, None) => {
                let rows = values.zip(self.times.iter()).zip(self.series.iter());
                rows.for_each(|((value, time), series)| visit(series, time, value));
            }
        }
    }
}

/// The histograms with integer counts of a batch, in columns of one length.
pub struct Histograms<'a> {
    shape: decode::Shape<'a>,
}

/// One histogram, its bins not read yet.
#[derive(Clone, Copy, Debug)]
pub struct HistogramRow<'a> {
    /// Its series.
    pub series: u32,
    /// Its time.
    pub time_ns: i64,
    /// Its scheme, by index into the batch's list.
    pub scheme: u32,
    /// Sum, minimum and maximum, where they are known.
    pub known: [Option<f64>; 3],
    bytes: &'a [u8],
}

impl Histograms<'_> {
    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Visits each of them in turn.
    ///
    /// # Errors
    /// When one ends beyond the bytes.
    pub fn each(&self, mut visit: impl FnMut(HistogramRow<'_>)) -> Result<(), Error> {
        let mut from = 0;
        for at in 0..self.len() {
            let bytes = self.shape.bins_of(at, &mut from)?;
            let (series, time_ns, scheme) = self.shape.head(at);
            visit(HistogramRow { series, time_ns, scheme, known: self.shape.known(at), bytes });
        }
        Ok(())
    }
}

impl HistogramRow<'_> {
    /// Passes each bin to `visit`, those below zero first, ascending by distance from zero, and then returns the counts
    /// of the zero bin and of NaN. `None` when the bytes are invalid, even if some were passed. Whether the scheme has
    /// such a bin is not checked.
    #[inline]
    pub fn each_bin(&self, mut visit: impl FnMut(bool, i32, u64)) -> Option<(u64, u64)> {
        let mut bytes = self.bytes;
        let (zero, nan) = (varint::take(&mut bytes)?, varint::take(&mut bytes)?);
        for is_positive in [false, true] {
            decode::each_integer_bin(&mut bytes, |index, count| visit(is_positive, index, count))?;
        }
        bytes.is_empty().then_some((zero, nan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Kind, Sample, SeriesDef, SeriesMeta, Temporality, Value};

    /// What a view says of a frame, as the batch of the same frame would.
    fn check(frame: &[u8]) {
        let batch = Batch::decode(frame);
        let view = View::read(frame);
        let Ok(batch) = batch else {
            // A view looks at floats alone; what it gives must not be more than that.
            return;
        };
        let view = view.unwrap();
        assert_eq!((view.tenant(), view.declared().unwrap()), (&batch.tenant, batch.series.len()));
        assert_eq!(view.source().unwrap(), batch.source);
        assert_eq!(view.known().unwrap().collect::<Vec<_>>(), batch.known);
        let mut rows = Vec::new();
        if let Some(floats) = view.floats().unwrap() {
            floats.each(|series, time, value| rows.push((series, time, value.to_bits())));
            assert_eq!((rows.len(), floats.is_empty()), (floats.len(), rows.is_empty()));
        }
        check_histograms(&view, &batch);
        let floats = batch.samples.iter().flatten().filter_map(|sample| match sample.value {
            Value::Float(value) => Some((sample.series, sample.time_ns, value.to_bits())),
            _ => None,
        });
        assert_eq!(rows, floats.collect::<Vec<_>>());
        let mut labels = vec![Vec::new(); batch.series.len()];
        view.each_label(|at, text| labels[at].push(text)).unwrap();
        for (labels, def) in labels.iter().zip(&batch.series) {
            if let Ok(def) = def {
                let expected: Vec<&str> = def.labels.iter().flat_map(|(name, value)| [name, value]).collect();
                assert_eq!(*labels, expected);
            }
        }
    }

    fn check_histograms(view: &View<'_>, batch: &Batch) {
        let Some(column) = view.histograms().unwrap() else { return };
        let mut expected = batch.samples.iter().flatten().filter_map(|sample| match &sample.value {
            Value::Histogram(histogram) => Some((sample, histogram)),
            _ => None,
        });
        let mut count = 0;
        column
            .each(|row| {
                let (sample, histogram) = expected.next().unwrap();
                let (mut positive, mut negative) = (Vec::new(), Vec::new());
                let each = |is_positive, index, count| {
                    if is_positive { &mut positive } else { &mut negative }.push((index, count))
                };
                assert_eq!(row.each_bin(each), Some((histogram.zero, histogram.nan)));
                assert_eq!(positive, histogram.positive.iter().collect::<Vec<_>>());
                assert_eq!(negative, histogram.negative.iter().collect::<Vec<_>>());
                assert_eq!((row.series, row.time_ns, row.scheme), (sample.series, sample.time_ns, 0));
                assert_eq!(row.known, [histogram.sum, histogram.min, histogram.max]);
                count += 1;
            })
            .unwrap();
        assert_eq!((count, column.is_empty()), (column.len(), count == 0));
        assert!(expected.next().is_none());
    }

    /// Counts and distances of every length, in odd and even numbers of bins, also where fewer than eight bytes are
    /// left.
    #[test]
    fn a_view_shows_histograms_as_the_batch_holds_them() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut random = move |below: u64| rng.u64(..below);
        let mut histogram = |bins: usize| {
            let mut out = ogive_hist::Histogram::log_linear();
            for _ in 0..bins {
                let magnitude = (1.0 + random(1_000) as f64) * 10_f64.powi(random(40) as i32 - 20);
                let value = if random(3) == 0 { -magnitude } else { magnitude };
                let count = 1_u64 << random(50);
                out.record_n(value, count);
            }
            out
        };
        let sample = |(at, histogram)| Sample {
            series: at,
            time_ns: i64::from(at) * 7,
            start_ns: None,
            value: Value::Histogram(Box::new(histogram)),
        };
        for _ in 0..50 {
            let samples = (0..12_u32).map(|at| (at, histogram(at as usize))).map(sample).map(Ok).collect();
            let known = (0..12).map(SeriesId).collect();
            check(&Batch { known, samples, ..Batch::default() }.encode().unwrap());
        }
    }

    fn batch(known: bool, shared_time: bool, ordered: bool) -> Batch {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let def = |at: u32| SeriesDef::new([("__name__", "up".to_owned()), ("at", at.to_string())], meta.clone());
        let sample = |at: u32| Sample {
            series: if ordered { at } else { 9 - at },
            time_ns: if shared_time { 5 } else { i64::from(at) },
            start_ns: None,
            value: Value::Float(f64::from(at) - 0.5),
        };
        Batch {
            series: if known { Vec::new() } else { (0..10).map(def).collect() },
            known: if known { (0..10).map(SeriesId).collect() } else { Vec::new() },
            samples: (0..10).map(sample).map(Ok).collect(),
            source: SourceId(7 << 64 | 5),
            ..Batch::default()
        }
    }

    #[test]
    fn a_view_shows_what_the_batch_holds() {
        for bits in 0..8 {
            let batch = batch(bits & 1 > 0, bits & 2 > 0, bits & 4 > 0);
            let frame = batch.encode().unwrap();
            check(&frame);
            let trusted = View::read_trusted(&frame).unwrap();
            assert_eq!(trusted.floats().unwrap().unwrap().len(), 10);
            assert!(!trusted.has_others().unwrap());
        }
        check(&Batch::default().encode().unwrap());
        let text = Sample { series: 0, time_ns: 1, start_ns: None, value: Value::Text("x".into()) };
        let other = Batch { known: vec![SeriesId(1)], samples: vec![Ok(text)], ..Batch::default() }.encode().unwrap();
        assert!(
            View::read(&other).unwrap().has_others().unwrap()
                && View::read(&other).unwrap().floats().unwrap().is_none()
        );
    }

    /// A frame of which a checksum is not looked at may hold anything: what is read of it is an error or a value, never
    /// a panic.
    #[test]
    fn damaged_frames_are_errors_or_what_the_batch_holds() {
        let mut rng = fastrand::Rng::with_seed(1);
        for bits in 0..8 {
            let good = batch(bits & 1 > 0, bits & 2 > 0, bits & 4 > 0).encode().unwrap();
            for _ in 0..4_000 {
                let mut bad = good.clone();
                for _ in 0..3 {
                    let at = rng.usize(..bad.len());
                    bad[at] = rng.u8(..);
                }
                assert!(View::read(&bad).is_err() || bad == good, "the checksum covers everything");
                let Ok(view) = View::read_trusted(&bad) else { continue };
                let _ = view.each_label(|_, _| {});
                let _ = view.known().map(|known| known.count());
                if let Ok(Some(histograms)) = view.histograms() {
                    let _ = histograms.each(|row| _ = row.each_bin(|_, _, _| {}));
                }
                if let Ok(Some(floats)) = view.floats() {
                    let mut count = 0;
                    floats.each(|_, _, _| count += 1);
                    assert_eq!(count, floats.len());
                }
            }
        }
    }
}
