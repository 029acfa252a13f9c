pub use root::*;

const _: () = ::planus::check_version_compatibility("planus-1.3.0");

/// The root namespace
///
/// Generated from these locations:
/// * File `schema/batch.fbs`
#[no_implicit_prelude]
#[allow(clippy::needless_lifetimes)]
mod root {
    /// The namespace `ogive`
    ///
    /// Generated from these locations:
    /// * File `schema/batch.fbs`
    pub mod ogive {
        /// The namespace `ogive.wire`
        ///
        /// Generated from these locations:
        /// * File `schema/batch.fbs`
        pub mod wire {
            /// The enum `Kind` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Enum `Kind` in the file `schema/batch.fbs:7`
            #[derive(
                Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            )]
            #[repr(u8)]
            pub enum Kind {
                /// The variant `Float` in the enum `Kind`
                Float = 0,

                /// The variant `Histogram` in the enum `Kind`
                Histogram = 1,

                /// The variant `Text` in the enum `Kind`
                Text = 2,
            }

            impl Kind {
                /// Array containing all valid variants of Kind
                pub const ENUM_VALUES: [Self; 3] = [Self::Float, Self::Histogram, Self::Text];
            }

            impl ::core::convert::TryFrom<u8> for Kind {
                type Error = ::planus::errors::UnknownEnumTagKind;
                #[inline]
                fn try_from(value: u8) -> ::core::result::Result<Self, ::planus::errors::UnknownEnumTagKind> {
                    #[allow(clippy::match_single_binding)]
                    match value {
                        0 => ::core::result::Result::Ok(Kind::Float),
                        1 => ::core::result::Result::Ok(Kind::Histogram),
                        2 => ::core::result::Result::Ok(Kind::Text),

                        _ => ::core::result::Result::Err(::planus::errors::UnknownEnumTagKind { tag: value as i128 }),
                    }
                }
            }

            impl ::core::convert::From<Kind> for u8 {
                #[inline]
                fn from(value: Kind) -> Self {
                    value as u8
                }
            }

            /// # Safety
            /// The Planus compiler correctly calculates `ALIGNMENT` and `SIZE`.
            unsafe impl ::planus::Primitive for Kind {
                const ALIGNMENT: usize = 1;
                const SIZE: usize = 1;
            }

            impl ::planus::WriteAsPrimitive<Kind> for Kind {
                #[inline]
                fn write<const N: usize>(&self, cursor: ::planus::Cursor<'_, N>, buffer_position: u32) {
                    (*self as u8).write(cursor, buffer_position);
                }
            }

            impl ::planus::WriteAs<Kind> for Kind {
                type Prepared = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> Kind {
                    *self
                }
            }

            impl ::planus::WriteAsDefault<Kind, Kind> for Kind {
                type Prepared = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder, default: &Kind) -> ::core::option::Option<Kind> {
                    if self == default {
                        ::core::option::Option::None
                    } else {
                        ::core::option::Option::Some(*self)
                    }
                }
            }

            impl ::planus::WriteAsOptional<Kind> for Kind {
                type Prepared = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> ::core::option::Option<Kind> {
                    ::core::option::Option::Some(*self)
                }
            }

            impl<'buf> ::planus::TableRead<'buf> for Kind {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'buf>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    let n: u8 = ::planus::TableRead::from_buffer(buffer, offset)?;
                    ::core::result::Result::Ok(::core::convert::TryInto::try_into(n)?)
                }
            }

            impl<'buf> ::planus::VectorReadInner<'buf> for Kind {
                type Error = ::planus::errors::UnknownEnumTag;
                const STRIDE: usize = 1;
                #[inline]
                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'buf>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::UnknownEnumTag> {
                    let value = unsafe { *buffer.buffer.get_unchecked(offset) };
                    let value: ::core::result::Result<Self, _> = ::core::convert::TryInto::try_into(value);
                    value.map_err(|error_kind| {
                        error_kind.with_error_location("Kind", "VectorRead::from_buffer", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<Kind> for Kind {
                const STRIDE: usize = 1;

                type Value = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> Self {
                    *self
                }

                #[inline]
                unsafe fn write_values(
                    values: &[Self],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 1];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - i as u32,
                        );
                    }
                }
            }

            /// The enum `Temporality` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Enum `Temporality` in the file `schema/batch.fbs:9`
            #[derive(
                Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            )]
            #[repr(u8)]
            pub enum Temporality {
                /// The variant `Gauge` in the enum `Temporality`
                Gauge = 0,

                /// The variant `Cumulative` in the enum `Temporality`
                Cumulative = 1,

                /// The variant `Delta` in the enum `Temporality`
                Delta = 2,
            }

            impl Temporality {
                /// Array containing all valid variants of Temporality
                pub const ENUM_VALUES: [Self; 3] = [Self::Gauge, Self::Cumulative, Self::Delta];
            }

            impl ::core::convert::TryFrom<u8> for Temporality {
                type Error = ::planus::errors::UnknownEnumTagKind;
                #[inline]
                fn try_from(value: u8) -> ::core::result::Result<Self, ::planus::errors::UnknownEnumTagKind> {
                    #[allow(clippy::match_single_binding)]
                    match value {
                        0 => ::core::result::Result::Ok(Temporality::Gauge),
                        1 => ::core::result::Result::Ok(Temporality::Cumulative),
                        2 => ::core::result::Result::Ok(Temporality::Delta),

                        _ => ::core::result::Result::Err(::planus::errors::UnknownEnumTagKind { tag: value as i128 }),
                    }
                }
            }

            impl ::core::convert::From<Temporality> for u8 {
                #[inline]
                fn from(value: Temporality) -> Self {
                    value as u8
                }
            }

            /// # Safety
            /// The Planus compiler correctly calculates `ALIGNMENT` and `SIZE`.
            unsafe impl ::planus::Primitive for Temporality {
                const ALIGNMENT: usize = 1;
                const SIZE: usize = 1;
            }

            impl ::planus::WriteAsPrimitive<Temporality> for Temporality {
                #[inline]
                fn write<const N: usize>(&self, cursor: ::planus::Cursor<'_, N>, buffer_position: u32) {
                    (*self as u8).write(cursor, buffer_position);
                }
            }

            impl ::planus::WriteAs<Temporality> for Temporality {
                type Prepared = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> Temporality {
                    *self
                }
            }

            impl ::planus::WriteAsDefault<Temporality, Temporality> for Temporality {
                type Prepared = Self;

                #[inline]
                fn prepare(
                    &self,
                    _builder: &mut ::planus::Builder,
                    default: &Temporality,
                ) -> ::core::option::Option<Temporality> {
                    if self == default {
                        ::core::option::Option::None
                    } else {
                        ::core::option::Option::Some(*self)
                    }
                }
            }

            impl ::planus::WriteAsOptional<Temporality> for Temporality {
                type Prepared = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> ::core::option::Option<Temporality> {
                    ::core::option::Option::Some(*self)
                }
            }

            impl<'buf> ::planus::TableRead<'buf> for Temporality {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'buf>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    let n: u8 = ::planus::TableRead::from_buffer(buffer, offset)?;
                    ::core::result::Result::Ok(::core::convert::TryInto::try_into(n)?)
                }
            }

            impl<'buf> ::planus::VectorReadInner<'buf> for Temporality {
                type Error = ::planus::errors::UnknownEnumTag;
                const STRIDE: usize = 1;
                #[inline]
                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'buf>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::UnknownEnumTag> {
                    let value = unsafe { *buffer.buffer.get_unchecked(offset) };
                    let value: ::core::result::Result<Self, _> = ::core::convert::TryInto::try_into(value);
                    value.map_err(|error_kind| {
                        error_kind.with_error_location(
                            "Temporality",
                            "VectorRead::from_buffer",
                            buffer.offset_from_start,
                        )
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<Temporality> for Temporality {
                const STRIDE: usize = 1;

                type Value = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> Self {
                    *self
                }

                #[inline]
                unsafe fn write_values(
                    values: &[Self],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 1];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - i as u32,
                        );
                    }
                }
            }

            /// The enum `SchemeKind` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Enum `SchemeKind` in the file `schema/batch.fbs:11`
            #[derive(
                Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            )]
            #[repr(u8)]
            pub enum SchemeKind {
                /// The variant `LogLinear10` in the enum `SchemeKind`
                LogLinear10 = 0,

                /// The variant `Exp2` in the enum `SchemeKind`
                Exp2 = 1,

                /// The variant `Custom` in the enum `SchemeKind`
                Custom = 2,

                /// The variant `LogLinear2` in the enum `SchemeKind`
                LogLinear2 = 3,

                /// The variant `Gamma` in the enum `SchemeKind`
                Gamma = 4,
            }

            impl SchemeKind {
                /// Array containing all valid variants of SchemeKind
                pub const ENUM_VALUES: [Self; 5] =
                    [Self::LogLinear10, Self::Exp2, Self::Custom, Self::LogLinear2, Self::Gamma];
            }

            impl ::core::convert::TryFrom<u8> for SchemeKind {
                type Error = ::planus::errors::UnknownEnumTagKind;
                #[inline]
                fn try_from(value: u8) -> ::core::result::Result<Self, ::planus::errors::UnknownEnumTagKind> {
                    #[allow(clippy::match_single_binding)]
                    match value {
                        0 => ::core::result::Result::Ok(SchemeKind::LogLinear10),
                        1 => ::core::result::Result::Ok(SchemeKind::Exp2),
                        2 => ::core::result::Result::Ok(SchemeKind::Custom),
                        3 => ::core::result::Result::Ok(SchemeKind::LogLinear2),
                        4 => ::core::result::Result::Ok(SchemeKind::Gamma),

                        _ => ::core::result::Result::Err(::planus::errors::UnknownEnumTagKind { tag: value as i128 }),
                    }
                }
            }

            impl ::core::convert::From<SchemeKind> for u8 {
                #[inline]
                fn from(value: SchemeKind) -> Self {
                    value as u8
                }
            }

            /// # Safety
            /// The Planus compiler correctly calculates `ALIGNMENT` and `SIZE`.
            unsafe impl ::planus::Primitive for SchemeKind {
                const ALIGNMENT: usize = 1;
                const SIZE: usize = 1;
            }

            impl ::planus::WriteAsPrimitive<SchemeKind> for SchemeKind {
                #[inline]
                fn write<const N: usize>(&self, cursor: ::planus::Cursor<'_, N>, buffer_position: u32) {
                    (*self as u8).write(cursor, buffer_position);
                }
            }

            impl ::planus::WriteAs<SchemeKind> for SchemeKind {
                type Prepared = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> SchemeKind {
                    *self
                }
            }

            impl ::planus::WriteAsDefault<SchemeKind, SchemeKind> for SchemeKind {
                type Prepared = Self;

                #[inline]
                fn prepare(
                    &self,
                    _builder: &mut ::planus::Builder,
                    default: &SchemeKind,
                ) -> ::core::option::Option<SchemeKind> {
                    if self == default {
                        ::core::option::Option::None
                    } else {
                        ::core::option::Option::Some(*self)
                    }
                }
            }

            impl ::planus::WriteAsOptional<SchemeKind> for SchemeKind {
                type Prepared = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> ::core::option::Option<SchemeKind> {
                    ::core::option::Option::Some(*self)
                }
            }

            impl<'buf> ::planus::TableRead<'buf> for SchemeKind {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'buf>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    let n: u8 = ::planus::TableRead::from_buffer(buffer, offset)?;
                    ::core::result::Result::Ok(::core::convert::TryInto::try_into(n)?)
                }
            }

            impl<'buf> ::planus::VectorReadInner<'buf> for SchemeKind {
                type Error = ::planus::errors::UnknownEnumTag;
                const STRIDE: usize = 1;
                #[inline]
                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'buf>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::UnknownEnumTag> {
                    let value = unsafe { *buffer.buffer.get_unchecked(offset) };
                    let value: ::core::result::Result<Self, _> = ::core::convert::TryInto::try_into(value);
                    value.map_err(|error_kind| {
                        error_kind.with_error_location(
                            "SchemeKind",
                            "VectorRead::from_buffer",
                            buffer.offset_from_start,
                        )
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<SchemeKind> for SchemeKind {
                const STRIDE: usize = 1;

                type Value = Self;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> Self {
                    *self
                }

                #[inline]
                unsafe fn write_values(
                    values: &[Self],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 1];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - i as u32,
                        );
                    }
                }
            }

            /// The table `Series` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Table `Series` in the file `schema/batch.fbs:13`
            #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
            pub struct Series {
                /// The field `labels` in the table `Series`
                pub labels: ::planus::alloc::vec::Vec<::planus::alloc::string::String>,
                /// The field `kind` in the table `Series`
                pub kind: self::Kind,
                /// The field `temporality` in the table `Series`
                pub temporality: self::Temporality,
                /// The field `unit` in the table `Series`
                pub unit: ::core::option::Option<::planus::alloc::string::String>,
                /// The field `width_ms` in the table `Series`
                pub width_ms: u32,
            }

            #[allow(clippy::derivable_impls)]
            impl ::core::default::Default for Series {
                fn default() -> Self {
                    Self {
                        labels: ::core::default::Default::default(),
                        kind: self::Kind::Float,
                        temporality: self::Temporality::Gauge,
                        unit: ::core::default::Default::default(),
                        width_ms: 0,
                    }
                }
            }

            impl Series {
                /// Creates a [SeriesBuilder] for serializing an instance of this table.
                #[inline]
                pub fn builder() -> SeriesBuilder<()> {
                    SeriesBuilder(())
                }

                #[allow(clippy::too_many_arguments)]
                pub fn create(
                    builder: &mut ::planus::Builder,
                    field_labels: impl ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                    field_kind: impl ::planus::WriteAsDefault<self::Kind, self::Kind>,
                    field_temporality: impl ::planus::WriteAsDefault<self::Temporality, self::Temporality>,
                    field_unit: impl ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
                    field_width_ms: impl ::planus::WriteAsDefault<u32, u32>,
                ) -> ::planus::Offset<Self> {
                    let prepared_labels = field_labels.prepare(builder);
                    let prepared_kind = field_kind.prepare(builder, &self::Kind::Float);
                    let prepared_temporality = field_temporality.prepare(builder, &self::Temporality::Gauge);
                    let prepared_unit = field_unit.prepare(builder);
                    let prepared_width_ms = field_width_ms.prepare(builder, &0);

                    let mut table_writer: ::planus::table_writer::TableWriter<14> = ::core::default::Default::default();
                    table_writer.write_entry::<::planus::Offset<[::planus::Offset<str>]>>(0);
                    if prepared_unit.is_some() {
                        table_writer.write_entry::<::planus::Offset<str>>(3);
                    }
                    if prepared_width_ms.is_some() {
                        table_writer.write_entry::<u32>(4);
                    }
                    if prepared_kind.is_some() {
                        table_writer.write_entry::<self::Kind>(1);
                    }
                    if prepared_temporality.is_some() {
                        table_writer.write_entry::<self::Temporality>(2);
                    }

                    unsafe {
                        table_writer.finish(builder, |object_writer| {
                            object_writer.write::<_, _, 4>(&prepared_labels);
                            if let ::core::option::Option::Some(prepared_unit) = prepared_unit {
                                object_writer.write::<_, _, 4>(&prepared_unit);
                            }
                            if let ::core::option::Option::Some(prepared_width_ms) = prepared_width_ms {
                                object_writer.write::<_, _, 4>(&prepared_width_ms);
                            }
                            if let ::core::option::Option::Some(prepared_kind) = prepared_kind {
                                object_writer.write::<_, _, 1>(&prepared_kind);
                            }
                            if let ::core::option::Option::Some(prepared_temporality) = prepared_temporality {
                                object_writer.write::<_, _, 1>(&prepared_temporality);
                            }
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<::planus::Offset<Series>> for Series {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Series> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl ::planus::WriteAsOptional<::planus::Offset<Series>> for Series {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Series>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl ::planus::WriteAsOffset<Series> for Series {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Series> {
                    Series::create(builder, &self.labels, self.kind, self.temporality, &self.unit, self.width_ms)
                }
            }

            /// Builder for serializing an instance of the [Series] type.
            ///
            /// Can be created using the [Series::builder] method.
            #[derive(Debug)]
            #[must_use]
            pub struct SeriesBuilder<State>(State);

            impl SeriesBuilder<()> {
                /// Setter for the [`labels` field](Series#structfield.labels).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn labels<T0>(self, value: T0) -> SeriesBuilder<(T0,)>
                where
                    T0: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                {
                    SeriesBuilder((value,))
                }
            }

            impl<T0> SeriesBuilder<(T0,)> {
                /// Setter for the [`kind` field](Series#structfield.kind).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn kind<T1>(self, value: T1) -> SeriesBuilder<(T0, T1)>
                where
                    T1: ::planus::WriteAsDefault<self::Kind, self::Kind>,
                {
                    let (v0,) = self.0;
                    SeriesBuilder((v0, value))
                }

                /// Sets the [`kind` field](Series#structfield.kind) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn kind_as_default(self) -> SeriesBuilder<(T0, ::planus::DefaultValue)> {
                    self.kind(::planus::DefaultValue)
                }
            }

            impl<T0, T1> SeriesBuilder<(T0, T1)> {
                /// Setter for the [`temporality` field](Series#structfield.temporality).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn temporality<T2>(self, value: T2) -> SeriesBuilder<(T0, T1, T2)>
                where
                    T2: ::planus::WriteAsDefault<self::Temporality, self::Temporality>,
                {
                    let (v0, v1) = self.0;
                    SeriesBuilder((v0, v1, value))
                }

                /// Sets the [`temporality` field](Series#structfield.temporality) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn temporality_as_default(self) -> SeriesBuilder<(T0, T1, ::planus::DefaultValue)> {
                    self.temporality(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2> SeriesBuilder<(T0, T1, T2)> {
                /// Setter for the [`unit` field](Series#structfield.unit).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn unit<T3>(self, value: T3) -> SeriesBuilder<(T0, T1, T2, T3)>
                where
                    T3: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
                {
                    let (v0, v1, v2) = self.0;
                    SeriesBuilder((v0, v1, v2, value))
                }

                /// Sets the [`unit` field](Series#structfield.unit) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn unit_as_null(self) -> SeriesBuilder<(T0, T1, T2, ())> {
                    self.unit(())
                }
            }

            impl<T0, T1, T2, T3> SeriesBuilder<(T0, T1, T2, T3)> {
                /// Setter for the [`width_ms` field](Series#structfield.width_ms).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn width_ms<T4>(self, value: T4) -> SeriesBuilder<(T0, T1, T2, T3, T4)>
                where
                    T4: ::planus::WriteAsDefault<u32, u32>,
                {
                    let (v0, v1, v2, v3) = self.0;
                    SeriesBuilder((v0, v1, v2, v3, value))
                }

                /// Sets the [`width_ms` field](Series#structfield.width_ms) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn width_ms_as_default(self) -> SeriesBuilder<(T0, T1, T2, T3, ::planus::DefaultValue)> {
                    self.width_ms(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2, T3, T4> SeriesBuilder<(T0, T1, T2, T3, T4)> {
                /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [Series].
                #[inline]
                pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<Series>
                where
                    Self: ::planus::WriteAsOffset<Series>,
                {
                    ::planus::WriteAsOffset::prepare(&self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                    T1: ::planus::WriteAsDefault<self::Kind, self::Kind>,
                    T2: ::planus::WriteAsDefault<self::Temporality, self::Temporality>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
                    T4: ::planus::WriteAsDefault<u32, u32>,
                > ::planus::WriteAs<::planus::Offset<Series>> for SeriesBuilder<(T0, T1, T2, T3, T4)>
            {
                type Prepared = ::planus::Offset<Series>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Series> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                    T1: ::planus::WriteAsDefault<self::Kind, self::Kind>,
                    T2: ::planus::WriteAsDefault<self::Temporality, self::Temporality>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
                    T4: ::planus::WriteAsDefault<u32, u32>,
                > ::planus::WriteAsOptional<::planus::Offset<Series>> for SeriesBuilder<(T0, T1, T2, T3, T4)>
            {
                type Prepared = ::planus::Offset<Series>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Series>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                    T1: ::planus::WriteAsDefault<self::Kind, self::Kind>,
                    T2: ::planus::WriteAsDefault<self::Temporality, self::Temporality>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
                    T4: ::planus::WriteAsDefault<u32, u32>,
                > ::planus::WriteAsOffset<Series> for SeriesBuilder<(T0, T1, T2, T3, T4)>
            {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Series> {
                    let (v0, v1, v2, v3, v4) = &self.0;
                    Series::create(builder, v0, v1, v2, v3, v4)
                }
            }

            /// Reference to a deserialized [Series].
            #[derive(Copy, Clone)]
            pub struct SeriesRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

            impl<'a> SeriesRef<'a> {
                /// Getter for the [`labels` field](Series#structfield.labels).
                #[inline]
                pub fn labels(
                    &self,
                ) -> ::planus::Result<::planus::Vector<'a, ::planus::Result<&'a ::core::primitive::str>>>
                {
                    self.0.access_required(0, "Series", "labels")
                }

                /// Getter for the [`kind` field](Series#structfield.kind).
                #[inline]
                pub fn kind(&self) -> ::planus::Result<self::Kind> {
                    ::core::result::Result::Ok(self.0.access(1, "Series", "kind")?.unwrap_or(self::Kind::Float))
                }

                /// Getter for the [`temporality` field](Series#structfield.temporality).
                #[inline]
                pub fn temporality(&self) -> ::planus::Result<self::Temporality> {
                    ::core::result::Result::Ok(
                        self.0.access(2, "Series", "temporality")?.unwrap_or(self::Temporality::Gauge),
                    )
                }

                /// Getter for the [`unit` field](Series#structfield.unit).
                #[inline]
                pub fn unit(&self) -> ::planus::Result<::core::option::Option<&'a ::core::primitive::str>> {
                    self.0.access(3, "Series", "unit")
                }

                /// Getter for the [`width_ms` field](Series#structfield.width_ms).
                #[inline]
                pub fn width_ms(&self) -> ::planus::Result<u32> {
                    ::core::result::Result::Ok(self.0.access(4, "Series", "width_ms")?.unwrap_or(0))
                }
            }

            impl<'a> ::core::fmt::Debug for SeriesRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("SeriesRef");
                    f.field("labels", &self.labels());
                    f.field("kind", &self.kind());
                    f.field("temporality", &self.temporality());
                    if let ::core::option::Option::Some(field_unit) = self.unit().transpose() {
                        f.field("unit", &field_unit);
                    }
                    f.field("width_ms", &self.width_ms());
                    f.finish()
                }
            }

            impl<'a> ::core::convert::TryFrom<SeriesRef<'a>> for Series {
                type Error = ::planus::Error;

                #[allow(unreachable_code)]
                fn try_from(value: SeriesRef<'a>) -> ::planus::Result<Self> {
                    ::core::result::Result::Ok(Self {
                        labels: value.labels()?.to_vec_result()?,
                        kind: ::core::convert::TryInto::try_into(value.kind()?)?,
                        temporality: ::core::convert::TryInto::try_into(value.temporality()?)?,
                        unit: value.unit()?.map(::core::convert::Into::into),
                        width_ms: ::core::convert::TryInto::try_into(value.width_ms()?)?,
                    })
                }
            }

            impl<'a> ::planus::TableRead<'a> for SeriesRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
                }
            }

            impl<'a> ::planus::VectorReadInner<'a> for SeriesRef<'a> {
                type Error = ::planus::Error;
                const STRIDE: usize = 4;

                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                        error_kind.with_error_location("[SeriesRef]", "get", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<::planus::Offset<Series>> for Series {
                type Value = ::planus::Offset<Series>;
                const STRIDE: usize = 4;
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
                    ::planus::WriteAs::prepare(self, builder)
                }

                #[inline]
                unsafe fn write_values(
                    values: &[::planus::Offset<Series>],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (Self::STRIDE * i) as u32,
                        );
                    }
                }
            }

            impl<'a> ::planus::ReadAsRoot<'a> for SeriesRef<'a> {
                fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(
                        ::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 },
                        0,
                    )
                    .map_err(|error_kind| error_kind.with_error_location("[SeriesRef]", "read_as_root", 0))
                }
            }

            /// The table `Scheme` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Table `Scheme` in the file `schema/batch.fbs:23`
            #[derive(Clone, Debug, PartialEq, PartialOrd)]
            pub struct Scheme {
                /// The field `kind` in the table `Scheme`
                pub kind: self::SchemeKind,
                /// The field `scale` in the table `Scheme`
                pub scale: i8,
                /// The field `bounds` in the table `Scheme`
                pub bounds: ::core::option::Option<::planus::alloc::vec::Vec<f64>>,
                /// The field `zero_threshold` in the table `Scheme`
                pub zero_threshold: f64,
                /// The field `shift` in the table `Scheme`
                pub shift: u8,
                /// The field `unit` in the table `Scheme`
                pub unit: f64,
                /// The field `gamma` in the table `Scheme`
                pub gamma: f64,
                /// The field `offset` in the table `Scheme`
                pub offset: f64,
            }

            #[allow(clippy::derivable_impls)]
            impl ::core::default::Default for Scheme {
                fn default() -> Self {
                    Self {
                        kind: self::SchemeKind::LogLinear10,
                        scale: 0,
                        bounds: ::core::default::Default::default(),
                        zero_threshold: 0.0,
                        shift: 0,
                        unit: 0.0,
                        gamma: 0.0,
                        offset: 0.0,
                    }
                }
            }

            impl Scheme {
                /// Creates a [SchemeBuilder] for serializing an instance of this table.
                #[inline]
                pub fn builder() -> SchemeBuilder<()> {
                    SchemeBuilder(())
                }

                #[allow(clippy::too_many_arguments)]
                pub fn create(
                    builder: &mut ::planus::Builder,
                    field_kind: impl ::planus::WriteAsDefault<self::SchemeKind, self::SchemeKind>,
                    field_scale: impl ::planus::WriteAsDefault<i8, i8>,
                    field_bounds: impl ::planus::WriteAsOptional<::planus::Offset<[f64]>>,
                    field_zero_threshold: impl ::planus::WriteAsDefault<f64, f64>,
                    field_shift: impl ::planus::WriteAsDefault<u8, u8>,
                    field_unit: impl ::planus::WriteAsDefault<f64, f64>,
                    field_gamma: impl ::planus::WriteAsDefault<f64, f64>,
                    field_offset: impl ::planus::WriteAsDefault<f64, f64>,
                ) -> ::planus::Offset<Self> {
                    let prepared_kind = field_kind.prepare(builder, &self::SchemeKind::LogLinear10);
                    let prepared_scale = field_scale.prepare(builder, &0);
                    let prepared_bounds = field_bounds.prepare(builder);
                    let prepared_zero_threshold = field_zero_threshold.prepare(builder, &0.0);
                    let prepared_shift = field_shift.prepare(builder, &0);
                    let prepared_unit = field_unit.prepare(builder, &0.0);
                    let prepared_gamma = field_gamma.prepare(builder, &0.0);
                    let prepared_offset = field_offset.prepare(builder, &0.0);

                    let mut table_writer: ::planus::table_writer::TableWriter<20> = ::core::default::Default::default();
                    if prepared_zero_threshold.is_some() {
                        table_writer.write_entry::<f64>(3);
                    }
                    if prepared_unit.is_some() {
                        table_writer.write_entry::<f64>(5);
                    }
                    if prepared_gamma.is_some() {
                        table_writer.write_entry::<f64>(6);
                    }
                    if prepared_offset.is_some() {
                        table_writer.write_entry::<f64>(7);
                    }
                    if prepared_bounds.is_some() {
                        table_writer.write_entry::<::planus::Offset<[f64]>>(2);
                    }
                    if prepared_kind.is_some() {
                        table_writer.write_entry::<self::SchemeKind>(0);
                    }
                    if prepared_scale.is_some() {
                        table_writer.write_entry::<i8>(1);
                    }
                    if prepared_shift.is_some() {
                        table_writer.write_entry::<u8>(4);
                    }

                    unsafe {
                        table_writer.finish(builder, |object_writer| {
                            if let ::core::option::Option::Some(prepared_zero_threshold) = prepared_zero_threshold {
                                object_writer.write::<_, _, 8>(&prepared_zero_threshold);
                            }
                            if let ::core::option::Option::Some(prepared_unit) = prepared_unit {
                                object_writer.write::<_, _, 8>(&prepared_unit);
                            }
                            if let ::core::option::Option::Some(prepared_gamma) = prepared_gamma {
                                object_writer.write::<_, _, 8>(&prepared_gamma);
                            }
                            if let ::core::option::Option::Some(prepared_offset) = prepared_offset {
                                object_writer.write::<_, _, 8>(&prepared_offset);
                            }
                            if let ::core::option::Option::Some(prepared_bounds) = prepared_bounds {
                                object_writer.write::<_, _, 4>(&prepared_bounds);
                            }
                            if let ::core::option::Option::Some(prepared_kind) = prepared_kind {
                                object_writer.write::<_, _, 1>(&prepared_kind);
                            }
                            if let ::core::option::Option::Some(prepared_scale) = prepared_scale {
                                object_writer.write::<_, _, 1>(&prepared_scale);
                            }
                            if let ::core::option::Option::Some(prepared_shift) = prepared_shift {
                                object_writer.write::<_, _, 1>(&prepared_shift);
                            }
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<::planus::Offset<Scheme>> for Scheme {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Scheme> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl ::planus::WriteAsOptional<::planus::Offset<Scheme>> for Scheme {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Scheme>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl ::planus::WriteAsOffset<Scheme> for Scheme {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Scheme> {
                    Scheme::create(
                        builder,
                        self.kind,
                        self.scale,
                        &self.bounds,
                        self.zero_threshold,
                        self.shift,
                        self.unit,
                        self.gamma,
                        self.offset,
                    )
                }
            }

            /// Builder for serializing an instance of the [Scheme] type.
            ///
            /// Can be created using the [Scheme::builder] method.
            #[derive(Debug)]
            #[must_use]
            pub struct SchemeBuilder<State>(State);

            impl SchemeBuilder<()> {
                /// Setter for the [`kind` field](Scheme#structfield.kind).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn kind<T0>(self, value: T0) -> SchemeBuilder<(T0,)>
                where
                    T0: ::planus::WriteAsDefault<self::SchemeKind, self::SchemeKind>,
                {
                    SchemeBuilder((value,))
                }

                /// Sets the [`kind` field](Scheme#structfield.kind) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn kind_as_default(self) -> SchemeBuilder<(::planus::DefaultValue,)> {
                    self.kind(::planus::DefaultValue)
                }
            }

            impl<T0> SchemeBuilder<(T0,)> {
                /// Setter for the [`scale` field](Scheme#structfield.scale).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn scale<T1>(self, value: T1) -> SchemeBuilder<(T0, T1)>
                where
                    T1: ::planus::WriteAsDefault<i8, i8>,
                {
                    let (v0,) = self.0;
                    SchemeBuilder((v0, value))
                }

                /// Sets the [`scale` field](Scheme#structfield.scale) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn scale_as_default(self) -> SchemeBuilder<(T0, ::planus::DefaultValue)> {
                    self.scale(::planus::DefaultValue)
                }
            }

            impl<T0, T1> SchemeBuilder<(T0, T1)> {
                /// Setter for the [`bounds` field](Scheme#structfield.bounds).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn bounds<T2>(self, value: T2) -> SchemeBuilder<(T0, T1, T2)>
                where
                    T2: ::planus::WriteAsOptional<::planus::Offset<[f64]>>,
                {
                    let (v0, v1) = self.0;
                    SchemeBuilder((v0, v1, value))
                }

                /// Sets the [`bounds` field](Scheme#structfield.bounds) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn bounds_as_null(self) -> SchemeBuilder<(T0, T1, ())> {
                    self.bounds(())
                }
            }

            impl<T0, T1, T2> SchemeBuilder<(T0, T1, T2)> {
                /// Setter for the [`zero_threshold` field](Scheme#structfield.zero_threshold).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn zero_threshold<T3>(self, value: T3) -> SchemeBuilder<(T0, T1, T2, T3)>
                where
                    T3: ::planus::WriteAsDefault<f64, f64>,
                {
                    let (v0, v1, v2) = self.0;
                    SchemeBuilder((v0, v1, v2, value))
                }

                /// Sets the [`zero_threshold` field](Scheme#structfield.zero_threshold) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn zero_threshold_as_default(self) -> SchemeBuilder<(T0, T1, T2, ::planus::DefaultValue)> {
                    self.zero_threshold(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2, T3> SchemeBuilder<(T0, T1, T2, T3)> {
                /// Setter for the [`shift` field](Scheme#structfield.shift).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn shift<T4>(self, value: T4) -> SchemeBuilder<(T0, T1, T2, T3, T4)>
                where
                    T4: ::planus::WriteAsDefault<u8, u8>,
                {
                    let (v0, v1, v2, v3) = self.0;
                    SchemeBuilder((v0, v1, v2, v3, value))
                }

                /// Sets the [`shift` field](Scheme#structfield.shift) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn shift_as_default(self) -> SchemeBuilder<(T0, T1, T2, T3, ::planus::DefaultValue)> {
                    self.shift(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2, T3, T4> SchemeBuilder<(T0, T1, T2, T3, T4)> {
                /// Setter for the [`unit` field](Scheme#structfield.unit).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn unit<T5>(self, value: T5) -> SchemeBuilder<(T0, T1, T2, T3, T4, T5)>
                where
                    T5: ::planus::WriteAsDefault<f64, f64>,
                {
                    let (v0, v1, v2, v3, v4) = self.0;
                    SchemeBuilder((v0, v1, v2, v3, v4, value))
                }

                /// Sets the [`unit` field](Scheme#structfield.unit) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn unit_as_default(self) -> SchemeBuilder<(T0, T1, T2, T3, T4, ::planus::DefaultValue)> {
                    self.unit(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2, T3, T4, T5> SchemeBuilder<(T0, T1, T2, T3, T4, T5)> {
                /// Setter for the [`gamma` field](Scheme#structfield.gamma).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn gamma<T6>(self, value: T6) -> SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6)>
                where
                    T6: ::planus::WriteAsDefault<f64, f64>,
                {
                    let (v0, v1, v2, v3, v4, v5) = self.0;
                    SchemeBuilder((v0, v1, v2, v3, v4, v5, value))
                }

                /// Sets the [`gamma` field](Scheme#structfield.gamma) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn gamma_as_default(self) -> SchemeBuilder<(T0, T1, T2, T3, T4, T5, ::planus::DefaultValue)> {
                    self.gamma(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6> SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6)> {
                /// Setter for the [`offset` field](Scheme#structfield.offset).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn offset<T7>(self, value: T7) -> SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
                where
                    T7: ::planus::WriteAsDefault<f64, f64>,
                {
                    let (v0, v1, v2, v3, v4, v5, v6) = self.0;
                    SchemeBuilder((v0, v1, v2, v3, v4, v5, v6, value))
                }

                /// Sets the [`offset` field](Scheme#structfield.offset) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn offset_as_default(self) -> SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6, ::planus::DefaultValue)> {
                    self.offset(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6, T7> SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)> {
                /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [Scheme].
                #[inline]
                pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<Scheme>
                where
                    Self: ::planus::WriteAsOffset<Scheme>,
                {
                    ::planus::WriteAsOffset::prepare(&self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAsDefault<self::SchemeKind, self::SchemeKind>,
                    T1: ::planus::WriteAsDefault<i8, i8>,
                    T2: ::planus::WriteAsOptional<::planus::Offset<[f64]>>,
                    T3: ::planus::WriteAsDefault<f64, f64>,
                    T4: ::planus::WriteAsDefault<u8, u8>,
                    T5: ::planus::WriteAsDefault<f64, f64>,
                    T6: ::planus::WriteAsDefault<f64, f64>,
                    T7: ::planus::WriteAsDefault<f64, f64>,
                > ::planus::WriteAs<::planus::Offset<Scheme>> for SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
            {
                type Prepared = ::planus::Offset<Scheme>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Scheme> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAsDefault<self::SchemeKind, self::SchemeKind>,
                    T1: ::planus::WriteAsDefault<i8, i8>,
                    T2: ::planus::WriteAsOptional<::planus::Offset<[f64]>>,
                    T3: ::planus::WriteAsDefault<f64, f64>,
                    T4: ::planus::WriteAsDefault<u8, u8>,
                    T5: ::planus::WriteAsDefault<f64, f64>,
                    T6: ::planus::WriteAsDefault<f64, f64>,
                    T7: ::planus::WriteAsDefault<f64, f64>,
                > ::planus::WriteAsOptional<::planus::Offset<Scheme>>
                for SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
            {
                type Prepared = ::planus::Offset<Scheme>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Scheme>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl<
                    T0: ::planus::WriteAsDefault<self::SchemeKind, self::SchemeKind>,
                    T1: ::planus::WriteAsDefault<i8, i8>,
                    T2: ::planus::WriteAsOptional<::planus::Offset<[f64]>>,
                    T3: ::planus::WriteAsDefault<f64, f64>,
                    T4: ::planus::WriteAsDefault<u8, u8>,
                    T5: ::planus::WriteAsDefault<f64, f64>,
                    T6: ::planus::WriteAsDefault<f64, f64>,
                    T7: ::planus::WriteAsDefault<f64, f64>,
                > ::planus::WriteAsOffset<Scheme> for SchemeBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
            {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Scheme> {
                    let (v0, v1, v2, v3, v4, v5, v6, v7) = &self.0;
                    Scheme::create(builder, v0, v1, v2, v3, v4, v5, v6, v7)
                }
            }

            /// Reference to a deserialized [Scheme].
            #[derive(Copy, Clone)]
            pub struct SchemeRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

            impl<'a> SchemeRef<'a> {
                /// Getter for the [`kind` field](Scheme#structfield.kind).
                #[inline]
                pub fn kind(&self) -> ::planus::Result<self::SchemeKind> {
                    ::core::result::Result::Ok(
                        self.0.access(0, "Scheme", "kind")?.unwrap_or(self::SchemeKind::LogLinear10),
                    )
                }

                /// Getter for the [`scale` field](Scheme#structfield.scale).
                #[inline]
                pub fn scale(&self) -> ::planus::Result<i8> {
                    ::core::result::Result::Ok(self.0.access(1, "Scheme", "scale")?.unwrap_or(0))
                }

                /// Getter for the [`bounds` field](Scheme#structfield.bounds).
                #[inline]
                pub fn bounds(&self) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, f64>>> {
                    self.0.access(2, "Scheme", "bounds")
                }

                /// Getter for the [`zero_threshold` field](Scheme#structfield.zero_threshold).
                #[inline]
                pub fn zero_threshold(&self) -> ::planus::Result<f64> {
                    ::core::result::Result::Ok(self.0.access(3, "Scheme", "zero_threshold")?.unwrap_or(0.0))
                }

                /// Getter for the [`shift` field](Scheme#structfield.shift).
                #[inline]
                pub fn shift(&self) -> ::planus::Result<u8> {
                    ::core::result::Result::Ok(self.0.access(4, "Scheme", "shift")?.unwrap_or(0))
                }

                /// Getter for the [`unit` field](Scheme#structfield.unit).
                #[inline]
                pub fn unit(&self) -> ::planus::Result<f64> {
                    ::core::result::Result::Ok(self.0.access(5, "Scheme", "unit")?.unwrap_or(0.0))
                }

                /// Getter for the [`gamma` field](Scheme#structfield.gamma).
                #[inline]
                pub fn gamma(&self) -> ::planus::Result<f64> {
                    ::core::result::Result::Ok(self.0.access(6, "Scheme", "gamma")?.unwrap_or(0.0))
                }

                /// Getter for the [`offset` field](Scheme#structfield.offset).
                #[inline]
                pub fn offset(&self) -> ::planus::Result<f64> {
                    ::core::result::Result::Ok(self.0.access(7, "Scheme", "offset")?.unwrap_or(0.0))
                }
            }

            impl<'a> ::core::fmt::Debug for SchemeRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("SchemeRef");
                    f.field("kind", &self.kind());
                    f.field("scale", &self.scale());
                    if let ::core::option::Option::Some(field_bounds) = self.bounds().transpose() {
                        f.field("bounds", &field_bounds);
                    }
                    f.field("zero_threshold", &self.zero_threshold());
                    f.field("shift", &self.shift());
                    f.field("unit", &self.unit());
                    f.field("gamma", &self.gamma());
                    f.field("offset", &self.offset());
                    f.finish()
                }
            }

            impl<'a> ::core::convert::TryFrom<SchemeRef<'a>> for Scheme {
                type Error = ::planus::Error;

                #[allow(unreachable_code)]
                fn try_from(value: SchemeRef<'a>) -> ::planus::Result<Self> {
                    ::core::result::Result::Ok(Self {
                        kind: ::core::convert::TryInto::try_into(value.kind()?)?,
                        scale: ::core::convert::TryInto::try_into(value.scale()?)?,
                        bounds: if let ::core::option::Option::Some(bounds) = value.bounds()? {
                            ::core::option::Option::Some(bounds.to_vec()?)
                        } else {
                            ::core::option::Option::None
                        },
                        zero_threshold: ::core::convert::TryInto::try_into(value.zero_threshold()?)?,
                        shift: ::core::convert::TryInto::try_into(value.shift()?)?,
                        unit: ::core::convert::TryInto::try_into(value.unit()?)?,
                        gamma: ::core::convert::TryInto::try_into(value.gamma()?)?,
                        offset: ::core::convert::TryInto::try_into(value.offset()?)?,
                    })
                }
            }

            impl<'a> ::planus::TableRead<'a> for SchemeRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
                }
            }

            impl<'a> ::planus::VectorReadInner<'a> for SchemeRef<'a> {
                type Error = ::planus::Error;
                const STRIDE: usize = 4;

                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                        error_kind.with_error_location("[SchemeRef]", "get", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<::planus::Offset<Scheme>> for Scheme {
                type Value = ::planus::Offset<Scheme>;
                const STRIDE: usize = 4;
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
                    ::planus::WriteAs::prepare(self, builder)
                }

                #[inline]
                unsafe fn write_values(
                    values: &[::planus::Offset<Scheme>],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (Self::STRIDE * i) as u32,
                        );
                    }
                }
            }

            impl<'a> ::planus::ReadAsRoot<'a> for SchemeRef<'a> {
                fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(
                        ::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 },
                        0,
                    )
                    .map_err(|error_kind| error_kind.with_error_location("[SchemeRef]", "read_as_root", 0))
                }
            }

            /// The struct `SeriesKey` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Struct `SeriesKey` in the file `schema/batch.fbs:38`
            #[derive(
                Copy,
                Clone,
                Debug,
                PartialEq,
                PartialOrd,
                Eq,
                Ord,
                Hash,
                Default,
            )]
            pub struct SeriesKey {
                /// The field `low` in the struct `SeriesKey`
                pub low: u64,

                /// The field `high` in the struct `SeriesKey`
                pub high: u64,
            }

            /// # Safety
            /// The Planus compiler correctly calculates `ALIGNMENT` and `SIZE`.
            unsafe impl ::planus::Primitive for SeriesKey {
                const ALIGNMENT: usize = 8;
                const SIZE: usize = 16;
            }

            #[allow(clippy::identity_op)]
            impl ::planus::WriteAsPrimitive<SeriesKey> for SeriesKey {
                #[inline]
                fn write<const N: usize>(&self, cursor: ::planus::Cursor<'_, N>, buffer_position: u32) {
                    let (cur, cursor) = cursor.split::<8, 8>();
                    self.low.write(cur, buffer_position - 0);
                    let (cur, cursor) = cursor.split::<8, 0>();
                    self.high.write(cur, buffer_position - 8);
                    cursor.finish([]);
                }
            }

            impl ::planus::WriteAsOffset<SeriesKey> for SeriesKey {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<SeriesKey> {
                    unsafe {
                        builder.write_with(16, 7, |buffer_position, bytes| {
                            let bytes = bytes.as_mut_ptr();

                            ::planus::WriteAsPrimitive::write(
                                self,
                                ::planus::Cursor::new(&mut *(bytes as *mut [::core::mem::MaybeUninit<u8>; 16])),
                                buffer_position,
                            );
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<SeriesKey> for SeriesKey {
                type Prepared = Self;
                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> Self {
                    *self
                }
            }

            impl ::planus::WriteAsOptional<SeriesKey> for SeriesKey {
                type Prepared = Self;
                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> ::core::option::Option<Self> {
                    ::core::option::Option::Some(*self)
                }
            }

            /// Reference to a deserialized [SeriesKey].
            #[derive(Copy, Clone)]
            pub struct SeriesKeyRef<'a>(::planus::ArrayWithStartOffset<'a, 16>);

            impl<'a> SeriesKeyRef<'a> {
                /// Getter for the [`low` field](SeriesKey#structfield.low).
                pub fn low(&self) -> u64 {
                    let buffer = self.0.advance_as_array::<8>(0).unwrap();

                    u64::from_le_bytes(*buffer.as_array())
                }

                /// Getter for the [`high` field](SeriesKey#structfield.high).
                pub fn high(&self) -> u64 {
                    let buffer = self.0.advance_as_array::<8>(8).unwrap();

                    u64::from_le_bytes(*buffer.as_array())
                }
            }

            impl<'a> ::core::fmt::Debug for SeriesKeyRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("SeriesKeyRef");
                    f.field("low", &self.low());
                    f.field("high", &self.high());
                    f.finish()
                }
            }

            impl<'a> ::core::convert::From<::planus::ArrayWithStartOffset<'a, 16>> for SeriesKeyRef<'a> {
                fn from(array: ::planus::ArrayWithStartOffset<'a, 16>) -> Self {
                    Self(array)
                }
            }

            impl<'a> ::core::convert::From<SeriesKeyRef<'a>> for SeriesKey {
                #[allow(unreachable_code)]
                fn from(value: SeriesKeyRef<'a>) -> Self {
                    Self { low: value.low(), high: value.high() }
                }
            }

            impl<'a, 'b> ::core::cmp::PartialEq<SeriesKeyRef<'a>> for SeriesKeyRef<'b> {
                fn eq(&self, other: &SeriesKeyRef<'_>) -> bool {
                    self.low() == other.low() && self.high() == other.high()
                }
            }

            impl<'a> ::core::cmp::Eq for SeriesKeyRef<'a> {}
            impl<'a, 'b> ::core::cmp::PartialOrd<SeriesKeyRef<'a>> for SeriesKeyRef<'b> {
                fn partial_cmp(&self, other: &SeriesKeyRef<'_>) -> ::core::option::Option<::core::cmp::Ordering> {
                    ::core::option::Option::Some(::core::cmp::Ord::cmp(self, other))
                }
            }

            impl<'a> ::core::cmp::Ord for SeriesKeyRef<'a> {
                fn cmp(&self, other: &SeriesKeyRef<'_>) -> ::core::cmp::Ordering {
                    self.low().cmp(&other.low()).then_with(|| self.high().cmp(&other.high()))
                }
            }

            impl<'a> ::core::hash::Hash for SeriesKeyRef<'a> {
                fn hash<H: ::core::hash::Hasher>(&self, state: &mut H) {
                    self.low().hash(state);
                    self.high().hash(state);
                }
            }

            impl<'a> ::planus::TableRead<'a> for SeriesKeyRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    let buffer = buffer.advance_as_array::<16>(offset)?;
                    ::core::result::Result::Ok(Self(buffer))
                }
            }

            impl<'a> ::planus::VectorRead<'a> for SeriesKeyRef<'a> {
                const STRIDE: usize = 16;

                #[inline]
                unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> Self {
                    Self(unsafe { buffer.unchecked_advance_as_array(offset) })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<SeriesKey> for SeriesKey {
                const STRIDE: usize = 16;

                type Value = SeriesKey;

                #[inline]
                fn prepare(&self, _builder: &mut ::planus::Builder) -> Self::Value {
                    *self
                }

                #[inline]
                unsafe fn write_values(
                    values: &[SeriesKey],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 16];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (16 * i) as u32,
                        );
                    }
                }
            }

            /// The table `Floats` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Table `Floats` in the file `schema/batch.fbs:46`
            #[derive(Clone, Debug, PartialEq, PartialOrd)]
            pub struct Floats {
                /// The field `series` in the table `Floats`
                pub series: ::planus::alloc::vec::Vec<u32>,
                /// The field `time_ns` in the table `Floats`
                pub time_ns: ::planus::alloc::vec::Vec<i64>,
                /// The field `value` in the table `Floats`
                pub value: ::planus::alloc::vec::Vec<f64>,
                /// The field `start_ns` in the table `Floats`
                pub start_ns: ::core::option::Option<::planus::alloc::vec::Vec<i64>>,
            }

            #[allow(clippy::derivable_impls)]
            impl ::core::default::Default for Floats {
                fn default() -> Self {
                    Self {
                        series: ::core::default::Default::default(),
                        time_ns: ::core::default::Default::default(),
                        value: ::core::default::Default::default(),
                        start_ns: ::core::default::Default::default(),
                    }
                }
            }

            impl Floats {
                /// Creates a [FloatsBuilder] for serializing an instance of this table.
                #[inline]
                pub fn builder() -> FloatsBuilder<()> {
                    FloatsBuilder(())
                }

                #[allow(clippy::too_many_arguments)]
                pub fn create(
                    builder: &mut ::planus::Builder,
                    field_series: impl ::planus::WriteAs<::planus::Offset<[u32]>>,
                    field_time_ns: impl ::planus::WriteAs<::planus::Offset<[i64]>>,
                    field_value: impl ::planus::WriteAs<::planus::Offset<[f64]>>,
                    field_start_ns: impl ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                ) -> ::planus::Offset<Self> {
                    let prepared_series = field_series.prepare(builder);
                    let prepared_time_ns = field_time_ns.prepare(builder);
                    let prepared_value = field_value.prepare(builder);
                    let prepared_start_ns = field_start_ns.prepare(builder);

                    let mut table_writer: ::planus::table_writer::TableWriter<12> = ::core::default::Default::default();
                    table_writer.write_entry::<::planus::Offset<[u32]>>(0);
                    table_writer.write_entry::<::planus::Offset<[i64]>>(1);
                    table_writer.write_entry::<::planus::Offset<[f64]>>(2);
                    if prepared_start_ns.is_some() {
                        table_writer.write_entry::<::planus::Offset<[i64]>>(3);
                    }

                    unsafe {
                        table_writer.finish(builder, |object_writer| {
                            object_writer.write::<_, _, 4>(&prepared_series);
                            object_writer.write::<_, _, 4>(&prepared_time_ns);
                            object_writer.write::<_, _, 4>(&prepared_value);
                            if let ::core::option::Option::Some(prepared_start_ns) = prepared_start_ns {
                                object_writer.write::<_, _, 4>(&prepared_start_ns);
                            }
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<::planus::Offset<Floats>> for Floats {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Floats> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl ::planus::WriteAsOptional<::planus::Offset<Floats>> for Floats {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Floats>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl ::planus::WriteAsOffset<Floats> for Floats {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Floats> {
                    Floats::create(builder, &self.series, &self.time_ns, &self.value, &self.start_ns)
                }
            }

            /// Builder for serializing an instance of the [Floats] type.
            ///
            /// Can be created using the [Floats::builder] method.
            #[derive(Debug)]
            #[must_use]
            pub struct FloatsBuilder<State>(State);

            impl FloatsBuilder<()> {
                /// Setter for the [`series` field](Floats#structfield.series).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn series<T0>(self, value: T0) -> FloatsBuilder<(T0,)>
                where
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                {
                    FloatsBuilder((value,))
                }
            }

            impl<T0> FloatsBuilder<(T0,)> {
                /// Setter for the [`time_ns` field](Floats#structfield.time_ns).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn time_ns<T1>(self, value: T1) -> FloatsBuilder<(T0, T1)>
                where
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                {
                    let (v0,) = self.0;
                    FloatsBuilder((v0, value))
                }
            }

            impl<T0, T1> FloatsBuilder<(T0, T1)> {
                /// Setter for the [`value` field](Floats#structfield.value).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn value<T2>(self, value: T2) -> FloatsBuilder<(T0, T1, T2)>
                where
                    T2: ::planus::WriteAs<::planus::Offset<[f64]>>,
                {
                    let (v0, v1) = self.0;
                    FloatsBuilder((v0, v1, value))
                }
            }

            impl<T0, T1, T2> FloatsBuilder<(T0, T1, T2)> {
                /// Setter for the [`start_ns` field](Floats#structfield.start_ns).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn start_ns<T3>(self, value: T3) -> FloatsBuilder<(T0, T1, T2, T3)>
                where
                    T3: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                {
                    let (v0, v1, v2) = self.0;
                    FloatsBuilder((v0, v1, v2, value))
                }

                /// Sets the [`start_ns` field](Floats#structfield.start_ns) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn start_ns_as_null(self) -> FloatsBuilder<(T0, T1, T2, ())> {
                    self.start_ns(())
                }
            }

            impl<T0, T1, T2, T3> FloatsBuilder<(T0, T1, T2, T3)> {
                /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [Floats].
                #[inline]
                pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<Floats>
                where
                    Self: ::planus::WriteAsOffset<Floats>,
                {
                    ::planus::WriteAsOffset::prepare(&self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                > ::planus::WriteAs<::planus::Offset<Floats>> for FloatsBuilder<(T0, T1, T2, T3)>
            {
                type Prepared = ::planus::Offset<Floats>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Floats> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                > ::planus::WriteAsOptional<::planus::Offset<Floats>> for FloatsBuilder<(T0, T1, T2, T3)>
            {
                type Prepared = ::planus::Offset<Floats>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Floats>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                > ::planus::WriteAsOffset<Floats> for FloatsBuilder<(T0, T1, T2, T3)>
            {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Floats> {
                    let (v0, v1, v2, v3) = &self.0;
                    Floats::create(builder, v0, v1, v2, v3)
                }
            }

            /// Reference to a deserialized [Floats].
            #[derive(Copy, Clone)]
            pub struct FloatsRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

            impl<'a> FloatsRef<'a> {
                /// Getter for the [`series` field](Floats#structfield.series).
                #[inline]
                pub fn series(&self) -> ::planus::Result<::planus::Vector<'a, u32>> {
                    self.0.access_required(0, "Floats", "series")
                }

                /// Getter for the [`time_ns` field](Floats#structfield.time_ns).
                #[inline]
                pub fn time_ns(&self) -> ::planus::Result<::planus::Vector<'a, i64>> {
                    self.0.access_required(1, "Floats", "time_ns")
                }

                /// Getter for the [`value` field](Floats#structfield.value).
                #[inline]
                pub fn value(&self) -> ::planus::Result<::planus::Vector<'a, f64>> {
                    self.0.access_required(2, "Floats", "value")
                }

                /// Getter for the [`start_ns` field](Floats#structfield.start_ns).
                #[inline]
                pub fn start_ns(&self) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, i64>>> {
                    self.0.access(3, "Floats", "start_ns")
                }
            }

            impl<'a> ::core::fmt::Debug for FloatsRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("FloatsRef");
                    f.field("series", &self.series());
                    f.field("time_ns", &self.time_ns());
                    f.field("value", &self.value());
                    if let ::core::option::Option::Some(field_start_ns) = self.start_ns().transpose() {
                        f.field("start_ns", &field_start_ns);
                    }
                    f.finish()
                }
            }

            impl<'a> ::core::convert::TryFrom<FloatsRef<'a>> for Floats {
                type Error = ::planus::Error;

                #[allow(unreachable_code)]
                fn try_from(value: FloatsRef<'a>) -> ::planus::Result<Self> {
                    ::core::result::Result::Ok(Self {
                        series: value.series()?.to_vec()?,
                        time_ns: value.time_ns()?.to_vec()?,
                        value: value.value()?.to_vec()?,
                        start_ns: if let ::core::option::Option::Some(start_ns) = value.start_ns()? {
                            ::core::option::Option::Some(start_ns.to_vec()?)
                        } else {
                            ::core::option::Option::None
                        },
                    })
                }
            }

            impl<'a> ::planus::TableRead<'a> for FloatsRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
                }
            }

            impl<'a> ::planus::VectorReadInner<'a> for FloatsRef<'a> {
                type Error = ::planus::Error;
                const STRIDE: usize = 4;

                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                        error_kind.with_error_location("[FloatsRef]", "get", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<::planus::Offset<Floats>> for Floats {
                type Value = ::planus::Offset<Floats>;
                const STRIDE: usize = 4;
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
                    ::planus::WriteAs::prepare(self, builder)
                }

                #[inline]
                unsafe fn write_values(
                    values: &[::planus::Offset<Floats>],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (Self::STRIDE * i) as u32,
                        );
                    }
                }
            }

            impl<'a> ::planus::ReadAsRoot<'a> for FloatsRef<'a> {
                fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(
                        ::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 },
                        0,
                    )
                    .map_err(|error_kind| error_kind.with_error_location("[FloatsRef]", "read_as_root", 0))
                }
            }

            /// The table `Histograms` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Table `Histograms` in the file `schema/batch.fbs:54`
            #[derive(Clone, Debug, PartialEq, PartialOrd)]
            pub struct Histograms {
                /// The field `series` in the table `Histograms`
                pub series: ::planus::alloc::vec::Vec<u32>,
                /// The field `time_ns` in the table `Histograms`
                pub time_ns: ::planus::alloc::vec::Vec<i64>,
                /// The field `scheme` in the table `Histograms`
                pub scheme: ::planus::alloc::vec::Vec<u32>,
                /// The field `flags` in the table `Histograms`
                pub flags: ::planus::alloc::vec::Vec<u8>,
                /// The field `sum` in the table `Histograms`
                pub sum: ::planus::alloc::vec::Vec<f64>,
                /// The field `min` in the table `Histograms`
                pub min: ::planus::alloc::vec::Vec<f64>,
                /// The field `max` in the table `Histograms`
                pub max: ::planus::alloc::vec::Vec<f64>,
                /// The field `bins_end` in the table `Histograms`
                pub bins_end: ::planus::alloc::vec::Vec<u32>,
                /// The field `bins` in the table `Histograms`
                pub bins: ::planus::alloc::vec::Vec<u8>,
                /// The field `start_ns` in the table `Histograms`
                pub start_ns: ::core::option::Option<::planus::alloc::vec::Vec<i64>>,
            }

            #[allow(clippy::derivable_impls)]
            impl ::core::default::Default for Histograms {
                fn default() -> Self {
                    Self {
                        series: ::core::default::Default::default(),
                        time_ns: ::core::default::Default::default(),
                        scheme: ::core::default::Default::default(),
                        flags: ::core::default::Default::default(),
                        sum: ::core::default::Default::default(),
                        min: ::core::default::Default::default(),
                        max: ::core::default::Default::default(),
                        bins_end: ::core::default::Default::default(),
                        bins: ::core::default::Default::default(),
                        start_ns: ::core::default::Default::default(),
                    }
                }
            }

            impl Histograms {
                /// Creates a [HistogramsBuilder] for serializing an instance of this table.
                #[inline]
                pub fn builder() -> HistogramsBuilder<()> {
                    HistogramsBuilder(())
                }

                #[allow(clippy::too_many_arguments)]
                pub fn create(
                    builder: &mut ::planus::Builder,
                    field_series: impl ::planus::WriteAs<::planus::Offset<[u32]>>,
                    field_time_ns: impl ::planus::WriteAs<::planus::Offset<[i64]>>,
                    field_scheme: impl ::planus::WriteAs<::planus::Offset<[u32]>>,
                    field_flags: impl ::planus::WriteAs<::planus::Offset<[u8]>>,
                    field_sum: impl ::planus::WriteAs<::planus::Offset<[f64]>>,
                    field_min: impl ::planus::WriteAs<::planus::Offset<[f64]>>,
                    field_max: impl ::planus::WriteAs<::planus::Offset<[f64]>>,
                    field_bins_end: impl ::planus::WriteAs<::planus::Offset<[u32]>>,
                    field_bins: impl ::planus::WriteAs<::planus::Offset<[u8]>>,
                    field_start_ns: impl ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                ) -> ::planus::Offset<Self> {
                    let prepared_series = field_series.prepare(builder);
                    let prepared_time_ns = field_time_ns.prepare(builder);
                    let prepared_scheme = field_scheme.prepare(builder);
                    let prepared_flags = field_flags.prepare(builder);
                    let prepared_sum = field_sum.prepare(builder);
                    let prepared_min = field_min.prepare(builder);
                    let prepared_max = field_max.prepare(builder);
                    let prepared_bins_end = field_bins_end.prepare(builder);
                    let prepared_bins = field_bins.prepare(builder);
                    let prepared_start_ns = field_start_ns.prepare(builder);

                    let mut table_writer: ::planus::table_writer::TableWriter<24> = ::core::default::Default::default();
                    table_writer.write_entry::<::planus::Offset<[u32]>>(0);
                    table_writer.write_entry::<::planus::Offset<[i64]>>(1);
                    table_writer.write_entry::<::planus::Offset<[u32]>>(2);
                    table_writer.write_entry::<::planus::Offset<[u8]>>(3);
                    table_writer.write_entry::<::planus::Offset<[f64]>>(4);
                    table_writer.write_entry::<::planus::Offset<[f64]>>(5);
                    table_writer.write_entry::<::planus::Offset<[f64]>>(6);
                    table_writer.write_entry::<::planus::Offset<[u32]>>(7);
                    table_writer.write_entry::<::planus::Offset<[u8]>>(8);
                    if prepared_start_ns.is_some() {
                        table_writer.write_entry::<::planus::Offset<[i64]>>(9);
                    }

                    unsafe {
                        table_writer.finish(builder, |object_writer| {
                            object_writer.write::<_, _, 4>(&prepared_series);
                            object_writer.write::<_, _, 4>(&prepared_time_ns);
                            object_writer.write::<_, _, 4>(&prepared_scheme);
                            object_writer.write::<_, _, 4>(&prepared_flags);
                            object_writer.write::<_, _, 4>(&prepared_sum);
                            object_writer.write::<_, _, 4>(&prepared_min);
                            object_writer.write::<_, _, 4>(&prepared_max);
                            object_writer.write::<_, _, 4>(&prepared_bins_end);
                            object_writer.write::<_, _, 4>(&prepared_bins);
                            if let ::core::option::Option::Some(prepared_start_ns) = prepared_start_ns {
                                object_writer.write::<_, _, 4>(&prepared_start_ns);
                            }
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<::planus::Offset<Histograms>> for Histograms {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Histograms> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl ::planus::WriteAsOptional<::planus::Offset<Histograms>> for Histograms {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(
                    &self,
                    builder: &mut ::planus::Builder,
                ) -> ::core::option::Option<::planus::Offset<Histograms>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl ::planus::WriteAsOffset<Histograms> for Histograms {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Histograms> {
                    Histograms::create(
                        builder,
                        &self.series,
                        &self.time_ns,
                        &self.scheme,
                        &self.flags,
                        &self.sum,
                        &self.min,
                        &self.max,
                        &self.bins_end,
                        &self.bins,
                        &self.start_ns,
                    )
                }
            }

            /// Builder for serializing an instance of the [Histograms] type.
            ///
            /// Can be created using the [Histograms::builder] method.
            #[derive(Debug)]
            #[must_use]
            pub struct HistogramsBuilder<State>(State);

            impl HistogramsBuilder<()> {
                /// Setter for the [`series` field](Histograms#structfield.series).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn series<T0>(self, value: T0) -> HistogramsBuilder<(T0,)>
                where
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                {
                    HistogramsBuilder((value,))
                }
            }

            impl<T0> HistogramsBuilder<(T0,)> {
                /// Setter for the [`time_ns` field](Histograms#structfield.time_ns).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn time_ns<T1>(self, value: T1) -> HistogramsBuilder<(T0, T1)>
                where
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                {
                    let (v0,) = self.0;
                    HistogramsBuilder((v0, value))
                }
            }

            impl<T0, T1> HistogramsBuilder<(T0, T1)> {
                /// Setter for the [`scheme` field](Histograms#structfield.scheme).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn scheme<T2>(self, value: T2) -> HistogramsBuilder<(T0, T1, T2)>
                where
                    T2: ::planus::WriteAs<::planus::Offset<[u32]>>,
                {
                    let (v0, v1) = self.0;
                    HistogramsBuilder((v0, v1, value))
                }
            }

            impl<T0, T1, T2> HistogramsBuilder<(T0, T1, T2)> {
                /// Setter for the [`flags` field](Histograms#structfield.flags).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn flags<T3>(self, value: T3) -> HistogramsBuilder<(T0, T1, T2, T3)>
                where
                    T3: ::planus::WriteAs<::planus::Offset<[u8]>>,
                {
                    let (v0, v1, v2) = self.0;
                    HistogramsBuilder((v0, v1, v2, value))
                }
            }

            impl<T0, T1, T2, T3> HistogramsBuilder<(T0, T1, T2, T3)> {
                /// Setter for the [`sum` field](Histograms#structfield.sum).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn sum<T4>(self, value: T4) -> HistogramsBuilder<(T0, T1, T2, T3, T4)>
                where
                    T4: ::planus::WriteAs<::planus::Offset<[f64]>>,
                {
                    let (v0, v1, v2, v3) = self.0;
                    HistogramsBuilder((v0, v1, v2, v3, value))
                }
            }

            impl<T0, T1, T2, T3, T4> HistogramsBuilder<(T0, T1, T2, T3, T4)> {
                /// Setter for the [`min` field](Histograms#structfield.min).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn min<T5>(self, value: T5) -> HistogramsBuilder<(T0, T1, T2, T3, T4, T5)>
                where
                    T5: ::planus::WriteAs<::planus::Offset<[f64]>>,
                {
                    let (v0, v1, v2, v3, v4) = self.0;
                    HistogramsBuilder((v0, v1, v2, v3, v4, value))
                }
            }

            impl<T0, T1, T2, T3, T4, T5> HistogramsBuilder<(T0, T1, T2, T3, T4, T5)> {
                /// Setter for the [`max` field](Histograms#structfield.max).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn max<T6>(self, value: T6) -> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6)>
                where
                    T6: ::planus::WriteAs<::planus::Offset<[f64]>>,
                {
                    let (v0, v1, v2, v3, v4, v5) = self.0;
                    HistogramsBuilder((v0, v1, v2, v3, v4, v5, value))
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6)> {
                /// Setter for the [`bins_end` field](Histograms#structfield.bins_end).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn bins_end<T7>(self, value: T7) -> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
                where
                    T7: ::planus::WriteAs<::planus::Offset<[u32]>>,
                {
                    let (v0, v1, v2, v3, v4, v5, v6) = self.0;
                    HistogramsBuilder((v0, v1, v2, v3, v4, v5, v6, value))
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6, T7> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)> {
                /// Setter for the [`bins` field](Histograms#structfield.bins).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn bins<T8>(self, value: T8) -> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8)>
                where
                    T8: ::planus::WriteAs<::planus::Offset<[u8]>>,
                {
                    let (v0, v1, v2, v3, v4, v5, v6, v7) = self.0;
                    HistogramsBuilder((v0, v1, v2, v3, v4, v5, v6, v7, value))
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6, T7, T8> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8)> {
                /// Setter for the [`start_ns` field](Histograms#structfield.start_ns).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn start_ns<T9>(self, value: T9) -> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
                where
                    T9: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                {
                    let (v0, v1, v2, v3, v4, v5, v6, v7, v8) = self.0;
                    HistogramsBuilder((v0, v1, v2, v3, v4, v5, v6, v7, v8, value))
                }

                /// Sets the [`start_ns` field](Histograms#structfield.start_ns) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn start_ns_as_null(self) -> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, ())> {
                    self.start_ns(())
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6, T7, T8, T9> HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)> {
                /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [Histograms].
                #[inline]
                pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<Histograms>
                where
                    Self: ::planus::WriteAsOffset<Histograms>,
                {
                    ::planus::WriteAsOffset::prepare(&self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T3: ::planus::WriteAs<::planus::Offset<[u8]>>,
                    T4: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T5: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T6: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T7: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T8: ::planus::WriteAs<::planus::Offset<[u8]>>,
                    T9: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                > ::planus::WriteAs<::planus::Offset<Histograms>>
                for HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
            {
                type Prepared = ::planus::Offset<Histograms>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Histograms> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T3: ::planus::WriteAs<::planus::Offset<[u8]>>,
                    T4: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T5: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T6: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T7: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T8: ::planus::WriteAs<::planus::Offset<[u8]>>,
                    T9: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                > ::planus::WriteAsOptional<::planus::Offset<Histograms>>
                for HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
            {
                type Prepared = ::planus::Offset<Histograms>;

                #[inline]
                fn prepare(
                    &self,
                    builder: &mut ::planus::Builder,
                ) -> ::core::option::Option<::planus::Offset<Histograms>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T3: ::planus::WriteAs<::planus::Offset<[u8]>>,
                    T4: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T5: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T6: ::planus::WriteAs<::planus::Offset<[f64]>>,
                    T7: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T8: ::planus::WriteAs<::planus::Offset<[u8]>>,
                    T9: ::planus::WriteAsOptional<::planus::Offset<[i64]>>,
                > ::planus::WriteAsOffset<Histograms> for HistogramsBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
            {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Histograms> {
                    let (v0, v1, v2, v3, v4, v5, v6, v7, v8, v9) = &self.0;
                    Histograms::create(builder, v0, v1, v2, v3, v4, v5, v6, v7, v8, v9)
                }
            }

            /// Reference to a deserialized [Histograms].
            #[derive(Copy, Clone)]
            pub struct HistogramsRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

            impl<'a> HistogramsRef<'a> {
                /// Getter for the [`series` field](Histograms#structfield.series).
                #[inline]
                pub fn series(&self) -> ::planus::Result<::planus::Vector<'a, u32>> {
                    self.0.access_required(0, "Histograms", "series")
                }

                /// Getter for the [`time_ns` field](Histograms#structfield.time_ns).
                #[inline]
                pub fn time_ns(&self) -> ::planus::Result<::planus::Vector<'a, i64>> {
                    self.0.access_required(1, "Histograms", "time_ns")
                }

                /// Getter for the [`scheme` field](Histograms#structfield.scheme).
                #[inline]
                pub fn scheme(&self) -> ::planus::Result<::planus::Vector<'a, u32>> {
                    self.0.access_required(2, "Histograms", "scheme")
                }

                /// Getter for the [`flags` field](Histograms#structfield.flags).
                #[inline]
                pub fn flags(&self) -> ::planus::Result<&'a [u8]> {
                    self.0.access_required(3, "Histograms", "flags")
                }

                /// Getter for the [`sum` field](Histograms#structfield.sum).
                #[inline]
                pub fn sum(&self) -> ::planus::Result<::planus::Vector<'a, f64>> {
                    self.0.access_required(4, "Histograms", "sum")
                }

                /// Getter for the [`min` field](Histograms#structfield.min).
                #[inline]
                pub fn min(&self) -> ::planus::Result<::planus::Vector<'a, f64>> {
                    self.0.access_required(5, "Histograms", "min")
                }

                /// Getter for the [`max` field](Histograms#structfield.max).
                #[inline]
                pub fn max(&self) -> ::planus::Result<::planus::Vector<'a, f64>> {
                    self.0.access_required(6, "Histograms", "max")
                }

                /// Getter for the [`bins_end` field](Histograms#structfield.bins_end).
                #[inline]
                pub fn bins_end(&self) -> ::planus::Result<::planus::Vector<'a, u32>> {
                    self.0.access_required(7, "Histograms", "bins_end")
                }

                /// Getter for the [`bins` field](Histograms#structfield.bins).
                #[inline]
                pub fn bins(&self) -> ::planus::Result<&'a [u8]> {
                    self.0.access_required(8, "Histograms", "bins")
                }

                /// Getter for the [`start_ns` field](Histograms#structfield.start_ns).
                #[inline]
                pub fn start_ns(&self) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, i64>>> {
                    self.0.access(9, "Histograms", "start_ns")
                }
            }

            impl<'a> ::core::fmt::Debug for HistogramsRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("HistogramsRef");
                    f.field("series", &self.series());
                    f.field("time_ns", &self.time_ns());
                    f.field("scheme", &self.scheme());
                    f.field("flags", &self.flags());
                    f.field("sum", &self.sum());
                    f.field("min", &self.min());
                    f.field("max", &self.max());
                    f.field("bins_end", &self.bins_end());
                    f.field("bins", &self.bins());
                    if let ::core::option::Option::Some(field_start_ns) = self.start_ns().transpose() {
                        f.field("start_ns", &field_start_ns);
                    }
                    f.finish()
                }
            }

            impl<'a> ::core::convert::TryFrom<HistogramsRef<'a>> for Histograms {
                type Error = ::planus::Error;

                #[allow(unreachable_code)]
                fn try_from(value: HistogramsRef<'a>) -> ::planus::Result<Self> {
                    ::core::result::Result::Ok(Self {
                        series: value.series()?.to_vec()?,
                        time_ns: value.time_ns()?.to_vec()?,
                        scheme: value.scheme()?.to_vec()?,
                        flags: value.flags()?.to_vec(),
                        sum: value.sum()?.to_vec()?,
                        min: value.min()?.to_vec()?,
                        max: value.max()?.to_vec()?,
                        bins_end: value.bins_end()?.to_vec()?,
                        bins: value.bins()?.to_vec(),
                        start_ns: if let ::core::option::Option::Some(start_ns) = value.start_ns()? {
                            ::core::option::Option::Some(start_ns.to_vec()?)
                        } else {
                            ::core::option::Option::None
                        },
                    })
                }
            }

            impl<'a> ::planus::TableRead<'a> for HistogramsRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
                }
            }

            impl<'a> ::planus::VectorReadInner<'a> for HistogramsRef<'a> {
                type Error = ::planus::Error;
                const STRIDE: usize = 4;

                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                        error_kind.with_error_location("[HistogramsRef]", "get", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<::planus::Offset<Histograms>> for Histograms {
                type Value = ::planus::Offset<Histograms>;
                const STRIDE: usize = 4;
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
                    ::planus::WriteAs::prepare(self, builder)
                }

                #[inline]
                unsafe fn write_values(
                    values: &[::planus::Offset<Histograms>],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (Self::STRIDE * i) as u32,
                        );
                    }
                }
            }

            impl<'a> ::planus::ReadAsRoot<'a> for HistogramsRef<'a> {
                fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(
                        ::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 },
                        0,
                    )
                    .map_err(|error_kind| error_kind.with_error_location("[HistogramsRef]", "read_as_root", 0))
                }
            }

            /// The table `FloatHistograms` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Table `FloatHistograms` in the file `schema/batch.fbs:70`
            #[derive(Clone, Debug, PartialEq, PartialOrd)]
            pub struct FloatHistograms {
                /// The field `shape` in the table `FloatHistograms`
                pub shape: ::planus::alloc::boxed::Box<self::Histograms>,
                /// The field `counts` in the table `FloatHistograms`
                pub counts: ::planus::alloc::vec::Vec<f64>,
            }

            #[allow(clippy::derivable_impls)]
            impl ::core::default::Default for FloatHistograms {
                fn default() -> Self {
                    Self { shape: ::core::default::Default::default(), counts: ::core::default::Default::default() }
                }
            }

            impl FloatHistograms {
                /// Creates a [FloatHistogramsBuilder] for serializing an instance of this table.
                #[inline]
                pub fn builder() -> FloatHistogramsBuilder<()> {
                    FloatHistogramsBuilder(())
                }

                #[allow(clippy::too_many_arguments)]
                pub fn create(
                    builder: &mut ::planus::Builder,
                    field_shape: impl ::planus::WriteAs<::planus::Offset<self::Histograms>>,
                    field_counts: impl ::planus::WriteAs<::planus::Offset<[f64]>>,
                ) -> ::planus::Offset<Self> {
                    let prepared_shape = field_shape.prepare(builder);
                    let prepared_counts = field_counts.prepare(builder);

                    let mut table_writer: ::planus::table_writer::TableWriter<8> = ::core::default::Default::default();
                    table_writer.write_entry::<::planus::Offset<self::Histograms>>(0);
                    table_writer.write_entry::<::planus::Offset<[f64]>>(1);

                    unsafe {
                        table_writer.finish(builder, |object_writer| {
                            object_writer.write::<_, _, 4>(&prepared_shape);
                            object_writer.write::<_, _, 4>(&prepared_counts);
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<::planus::Offset<FloatHistograms>> for FloatHistograms {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FloatHistograms> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl ::planus::WriteAsOptional<::planus::Offset<FloatHistograms>> for FloatHistograms {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(
                    &self,
                    builder: &mut ::planus::Builder,
                ) -> ::core::option::Option<::planus::Offset<FloatHistograms>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl ::planus::WriteAsOffset<FloatHistograms> for FloatHistograms {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FloatHistograms> {
                    FloatHistograms::create(builder, &self.shape, &self.counts)
                }
            }

            /// Builder for serializing an instance of the [FloatHistograms] type.
            ///
            /// Can be created using the [FloatHistograms::builder] method.
            #[derive(Debug)]
            #[must_use]
            pub struct FloatHistogramsBuilder<State>(State);

            impl FloatHistogramsBuilder<()> {
                /// Setter for the [`shape` field](FloatHistograms#structfield.shape).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn shape<T0>(self, value: T0) -> FloatHistogramsBuilder<(T0,)>
                where
                    T0: ::planus::WriteAs<::planus::Offset<self::Histograms>>,
                {
                    FloatHistogramsBuilder((value,))
                }
            }

            impl<T0> FloatHistogramsBuilder<(T0,)> {
                /// Setter for the [`counts` field](FloatHistograms#structfield.counts).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn counts<T1>(self, value: T1) -> FloatHistogramsBuilder<(T0, T1)>
                where
                    T1: ::planus::WriteAs<::planus::Offset<[f64]>>,
                {
                    let (v0,) = self.0;
                    FloatHistogramsBuilder((v0, value))
                }
            }

            impl<T0, T1> FloatHistogramsBuilder<(T0, T1)> {
                /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [FloatHistograms].
                #[inline]
                pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<FloatHistograms>
                where
                    Self: ::planus::WriteAsOffset<FloatHistograms>,
                {
                    ::planus::WriteAsOffset::prepare(&self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<self::Histograms>>,
                    T1: ::planus::WriteAs<::planus::Offset<[f64]>>,
                > ::planus::WriteAs<::planus::Offset<FloatHistograms>> for FloatHistogramsBuilder<(T0, T1)>
            {
                type Prepared = ::planus::Offset<FloatHistograms>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FloatHistograms> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<self::Histograms>>,
                    T1: ::planus::WriteAs<::planus::Offset<[f64]>>,
                > ::planus::WriteAsOptional<::planus::Offset<FloatHistograms>> for FloatHistogramsBuilder<(T0, T1)>
            {
                type Prepared = ::planus::Offset<FloatHistograms>;

                #[inline]
                fn prepare(
                    &self,
                    builder: &mut ::planus::Builder,
                ) -> ::core::option::Option<::planus::Offset<FloatHistograms>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<self::Histograms>>,
                    T1: ::planus::WriteAs<::planus::Offset<[f64]>>,
                > ::planus::WriteAsOffset<FloatHistograms> for FloatHistogramsBuilder<(T0, T1)>
            {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FloatHistograms> {
                    let (v0, v1) = &self.0;
                    FloatHistograms::create(builder, v0, v1)
                }
            }

            /// Reference to a deserialized [FloatHistograms].
            #[derive(Copy, Clone)]
            pub struct FloatHistogramsRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

            impl<'a> FloatHistogramsRef<'a> {
                /// Getter for the [`shape` field](FloatHistograms#structfield.shape).
                #[inline]
                pub fn shape(&self) -> ::planus::Result<self::HistogramsRef<'a>> {
                    self.0.access_required(0, "FloatHistograms", "shape")
                }

                /// Getter for the [`counts` field](FloatHistograms#structfield.counts).
                #[inline]
                pub fn counts(&self) -> ::planus::Result<::planus::Vector<'a, f64>> {
                    self.0.access_required(1, "FloatHistograms", "counts")
                }
            }

            impl<'a> ::core::fmt::Debug for FloatHistogramsRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("FloatHistogramsRef");
                    f.field("shape", &self.shape());
                    f.field("counts", &self.counts());
                    f.finish()
                }
            }

            impl<'a> ::core::convert::TryFrom<FloatHistogramsRef<'a>> for FloatHistograms {
                type Error = ::planus::Error;

                #[allow(unreachable_code)]
                fn try_from(value: FloatHistogramsRef<'a>) -> ::planus::Result<Self> {
                    ::core::result::Result::Ok(Self {
                        shape: ::planus::alloc::boxed::Box::new(::core::convert::TryInto::try_into(value.shape()?)?),
                        counts: value.counts()?.to_vec()?,
                    })
                }
            }

            impl<'a> ::planus::TableRead<'a> for FloatHistogramsRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
                }
            }

            impl<'a> ::planus::VectorReadInner<'a> for FloatHistogramsRef<'a> {
                type Error = ::planus::Error;
                const STRIDE: usize = 4;

                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                        error_kind.with_error_location("[FloatHistogramsRef]", "get", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<::planus::Offset<FloatHistograms>> for FloatHistograms {
                type Value = ::planus::Offset<FloatHistograms>;
                const STRIDE: usize = 4;
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
                    ::planus::WriteAs::prepare(self, builder)
                }

                #[inline]
                unsafe fn write_values(
                    values: &[::planus::Offset<FloatHistograms>],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (Self::STRIDE * i) as u32,
                        );
                    }
                }
            }

            impl<'a> ::planus::ReadAsRoot<'a> for FloatHistogramsRef<'a> {
                fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(
                        ::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 },
                        0,
                    )
                    .map_err(|error_kind| error_kind.with_error_location("[FloatHistogramsRef]", "read_as_root", 0))
                }
            }

            /// The table `Texts` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Table `Texts` in the file `schema/batch.fbs:75`
            #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
            pub struct Texts {
                /// The field `series` in the table `Texts`
                pub series: ::planus::alloc::vec::Vec<u32>,
                /// The field `time_ns` in the table `Texts`
                pub time_ns: ::planus::alloc::vec::Vec<i64>,
                /// The field `value` in the table `Texts`
                pub value: ::planus::alloc::vec::Vec<::planus::alloc::string::String>,
            }

            #[allow(clippy::derivable_impls)]
            impl ::core::default::Default for Texts {
                fn default() -> Self {
                    Self {
                        series: ::core::default::Default::default(),
                        time_ns: ::core::default::Default::default(),
                        value: ::core::default::Default::default(),
                    }
                }
            }

            impl Texts {
                /// Creates a [TextsBuilder] for serializing an instance of this table.
                #[inline]
                pub fn builder() -> TextsBuilder<()> {
                    TextsBuilder(())
                }

                #[allow(clippy::too_many_arguments)]
                pub fn create(
                    builder: &mut ::planus::Builder,
                    field_series: impl ::planus::WriteAs<::planus::Offset<[u32]>>,
                    field_time_ns: impl ::planus::WriteAs<::planus::Offset<[i64]>>,
                    field_value: impl ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                ) -> ::planus::Offset<Self> {
                    let prepared_series = field_series.prepare(builder);
                    let prepared_time_ns = field_time_ns.prepare(builder);
                    let prepared_value = field_value.prepare(builder);

                    let mut table_writer: ::planus::table_writer::TableWriter<10> = ::core::default::Default::default();
                    table_writer.write_entry::<::planus::Offset<[u32]>>(0);
                    table_writer.write_entry::<::planus::Offset<[i64]>>(1);
                    table_writer.write_entry::<::planus::Offset<[::planus::Offset<str>]>>(2);

                    unsafe {
                        table_writer.finish(builder, |object_writer| {
                            object_writer.write::<_, _, 4>(&prepared_series);
                            object_writer.write::<_, _, 4>(&prepared_time_ns);
                            object_writer.write::<_, _, 4>(&prepared_value);
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<::planus::Offset<Texts>> for Texts {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Texts> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl ::planus::WriteAsOptional<::planus::Offset<Texts>> for Texts {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Texts>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl ::planus::WriteAsOffset<Texts> for Texts {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Texts> {
                    Texts::create(builder, &self.series, &self.time_ns, &self.value)
                }
            }

            /// Builder for serializing an instance of the [Texts] type.
            ///
            /// Can be created using the [Texts::builder] method.
            #[derive(Debug)]
            #[must_use]
            pub struct TextsBuilder<State>(State);

            impl TextsBuilder<()> {
                /// Setter for the [`series` field](Texts#structfield.series).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn series<T0>(self, value: T0) -> TextsBuilder<(T0,)>
                where
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                {
                    TextsBuilder((value,))
                }
            }

            impl<T0> TextsBuilder<(T0,)> {
                /// Setter for the [`time_ns` field](Texts#structfield.time_ns).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn time_ns<T1>(self, value: T1) -> TextsBuilder<(T0, T1)>
                where
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                {
                    let (v0,) = self.0;
                    TextsBuilder((v0, value))
                }
            }

            impl<T0, T1> TextsBuilder<(T0, T1)> {
                /// Setter for the [`value` field](Texts#structfield.value).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn value<T2>(self, value: T2) -> TextsBuilder<(T0, T1, T2)>
                where
                    T2: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                {
                    let (v0, v1) = self.0;
                    TextsBuilder((v0, v1, value))
                }
            }

            impl<T0, T1, T2> TextsBuilder<(T0, T1, T2)> {
                /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [Texts].
                #[inline]
                pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<Texts>
                where
                    Self: ::planus::WriteAsOffset<Texts>,
                {
                    ::planus::WriteAsOffset::prepare(&self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                > ::planus::WriteAs<::planus::Offset<Texts>> for TextsBuilder<(T0, T1, T2)>
            {
                type Prepared = ::planus::Offset<Texts>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Texts> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                > ::planus::WriteAsOptional<::planus::Offset<Texts>> for TextsBuilder<(T0, T1, T2)>
            {
                type Prepared = ::planus::Offset<Texts>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Texts>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl<
                    T0: ::planus::WriteAs<::planus::Offset<[u32]>>,
                    T1: ::planus::WriteAs<::planus::Offset<[i64]>>,
                    T2: ::planus::WriteAs<::planus::Offset<[::planus::Offset<str>]>>,
                > ::planus::WriteAsOffset<Texts> for TextsBuilder<(T0, T1, T2)>
            {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Texts> {
                    let (v0, v1, v2) = &self.0;
                    Texts::create(builder, v0, v1, v2)
                }
            }

            /// Reference to a deserialized [Texts].
            #[derive(Copy, Clone)]
            pub struct TextsRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

            impl<'a> TextsRef<'a> {
                /// Getter for the [`series` field](Texts#structfield.series).
                #[inline]
                pub fn series(&self) -> ::planus::Result<::planus::Vector<'a, u32>> {
                    self.0.access_required(0, "Texts", "series")
                }

                /// Getter for the [`time_ns` field](Texts#structfield.time_ns).
                #[inline]
                pub fn time_ns(&self) -> ::planus::Result<::planus::Vector<'a, i64>> {
                    self.0.access_required(1, "Texts", "time_ns")
                }

                /// Getter for the [`value` field](Texts#structfield.value).
                #[inline]
                pub fn value(
                    &self,
                ) -> ::planus::Result<::planus::Vector<'a, ::planus::Result<&'a ::core::primitive::str>>>
                {
                    self.0.access_required(2, "Texts", "value")
                }
            }

            impl<'a> ::core::fmt::Debug for TextsRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("TextsRef");
                    f.field("series", &self.series());
                    f.field("time_ns", &self.time_ns());
                    f.field("value", &self.value());
                    f.finish()
                }
            }

            impl<'a> ::core::convert::TryFrom<TextsRef<'a>> for Texts {
                type Error = ::planus::Error;

                #[allow(unreachable_code)]
                fn try_from(value: TextsRef<'a>) -> ::planus::Result<Self> {
                    ::core::result::Result::Ok(Self {
                        series: value.series()?.to_vec()?,
                        time_ns: value.time_ns()?.to_vec()?,
                        value: value.value()?.to_vec_result()?,
                    })
                }
            }

            impl<'a> ::planus::TableRead<'a> for TextsRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
                }
            }

            impl<'a> ::planus::VectorReadInner<'a> for TextsRef<'a> {
                type Error = ::planus::Error;
                const STRIDE: usize = 4;

                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                        error_kind.with_error_location("[TextsRef]", "get", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<::planus::Offset<Texts>> for Texts {
                type Value = ::planus::Offset<Texts>;
                const STRIDE: usize = 4;
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
                    ::planus::WriteAs::prepare(self, builder)
                }

                #[inline]
                unsafe fn write_values(
                    values: &[::planus::Offset<Texts>],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (Self::STRIDE * i) as u32,
                        );
                    }
                }
            }

            impl<'a> ::planus::ReadAsRoot<'a> for TextsRef<'a> {
                fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(
                        ::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 },
                        0,
                    )
                    .map_err(|error_kind| error_kind.with_error_location("[TextsRef]", "read_as_root", 0))
                }
            }

            /// The table `Batch` in the namespace `ogive.wire`
            ///
            /// Generated from these locations:
            /// * Table `Batch` in the file `schema/batch.fbs:82`
            #[derive(Clone, Debug, PartialEq, PartialOrd)]
            pub struct Batch {
                /// The field `source_low` in the table `Batch`
                pub source_low: u64,
                /// The field `source_high` in the table `Batch`
                pub source_high: u64,
                /// The field `sequence` in the table `Batch`
                pub sequence: u64,
                /// The field `series` in the table `Batch`
                pub series: ::core::option::Option<::planus::alloc::vec::Vec<self::Series>>,
                /// The field `schemes` in the table `Batch`
                pub schemes: ::core::option::Option<::planus::alloc::vec::Vec<self::Scheme>>,
                /// The field `floats` in the table `Batch`
                pub floats: ::core::option::Option<::planus::alloc::boxed::Box<self::Floats>>,
                /// The field `histograms` in the table `Batch`
                pub histograms: ::core::option::Option<::planus::alloc::boxed::Box<self::Histograms>>,
                /// The field `float_histograms` in the table `Batch`
                pub float_histograms: ::core::option::Option<::planus::alloc::boxed::Box<self::FloatHistograms>>,
                /// The field `texts` in the table `Batch`
                pub texts: ::core::option::Option<::planus::alloc::boxed::Box<self::Texts>>,
                /// The field `known` in the table `Batch`
                pub known: ::core::option::Option<::planus::alloc::vec::Vec<self::SeriesKey>>,
            }

            #[allow(clippy::derivable_impls)]
            impl ::core::default::Default for Batch {
                fn default() -> Self {
                    Self {
                        source_low: 0,
                        source_high: 0,
                        sequence: 0,
                        series: ::core::default::Default::default(),
                        schemes: ::core::default::Default::default(),
                        floats: ::core::default::Default::default(),
                        histograms: ::core::default::Default::default(),
                        float_histograms: ::core::default::Default::default(),
                        texts: ::core::default::Default::default(),
                        known: ::core::default::Default::default(),
                    }
                }
            }

            impl Batch {
                /// Creates a [BatchBuilder] for serializing an instance of this table.
                #[inline]
                pub fn builder() -> BatchBuilder<()> {
                    BatchBuilder(())
                }

                #[allow(clippy::too_many_arguments)]
                pub fn create(
                    builder: &mut ::planus::Builder,
                    field_source_low: impl ::planus::WriteAsDefault<u64, u64>,
                    field_source_high: impl ::planus::WriteAsDefault<u64, u64>,
                    field_sequence: impl ::planus::WriteAsDefault<u64, u64>,
                    field_series: impl ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Series>]>>,
                    field_schemes: impl ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Scheme>]>>,
                    field_floats: impl ::planus::WriteAsOptional<::planus::Offset<self::Floats>>,
                    field_histograms: impl ::planus::WriteAsOptional<::planus::Offset<self::Histograms>>,
                    field_float_histograms: impl ::planus::WriteAsOptional<::planus::Offset<self::FloatHistograms>>,
                    field_texts: impl ::planus::WriteAsOptional<::planus::Offset<self::Texts>>,
                    field_known: impl ::planus::WriteAsOptional<::planus::Offset<[self::SeriesKey]>>,
                ) -> ::planus::Offset<Self> {
                    let prepared_source_low = field_source_low.prepare(builder, &0);
                    let prepared_source_high = field_source_high.prepare(builder, &0);
                    let prepared_sequence = field_sequence.prepare(builder, &0);
                    let prepared_series = field_series.prepare(builder);
                    let prepared_schemes = field_schemes.prepare(builder);
                    let prepared_floats = field_floats.prepare(builder);
                    let prepared_histograms = field_histograms.prepare(builder);
                    let prepared_float_histograms = field_float_histograms.prepare(builder);
                    let prepared_texts = field_texts.prepare(builder);
                    let prepared_known = field_known.prepare(builder);

                    let mut table_writer: ::planus::table_writer::TableWriter<24> = ::core::default::Default::default();
                    if prepared_source_low.is_some() {
                        table_writer.write_entry::<u64>(0);
                    }
                    if prepared_source_high.is_some() {
                        table_writer.write_entry::<u64>(1);
                    }
                    if prepared_sequence.is_some() {
                        table_writer.write_entry::<u64>(2);
                    }
                    if prepared_series.is_some() {
                        table_writer.write_entry::<::planus::Offset<[::planus::Offset<self::Series>]>>(3);
                    }
                    if prepared_schemes.is_some() {
                        table_writer.write_entry::<::planus::Offset<[::planus::Offset<self::Scheme>]>>(4);
                    }
                    if prepared_floats.is_some() {
                        table_writer.write_entry::<::planus::Offset<self::Floats>>(5);
                    }
                    if prepared_histograms.is_some() {
                        table_writer.write_entry::<::planus::Offset<self::Histograms>>(6);
                    }
                    if prepared_float_histograms.is_some() {
                        table_writer.write_entry::<::planus::Offset<self::FloatHistograms>>(7);
                    }
                    if prepared_texts.is_some() {
                        table_writer.write_entry::<::planus::Offset<self::Texts>>(8);
                    }
                    if prepared_known.is_some() {
                        table_writer.write_entry::<::planus::Offset<[self::SeriesKey]>>(9);
                    }

                    unsafe {
                        table_writer.finish(builder, |object_writer| {
                            if let ::core::option::Option::Some(prepared_source_low) = prepared_source_low {
                                object_writer.write::<_, _, 8>(&prepared_source_low);
                            }
                            if let ::core::option::Option::Some(prepared_source_high) = prepared_source_high {
                                object_writer.write::<_, _, 8>(&prepared_source_high);
                            }
                            if let ::core::option::Option::Some(prepared_sequence) = prepared_sequence {
                                object_writer.write::<_, _, 8>(&prepared_sequence);
                            }
                            if let ::core::option::Option::Some(prepared_series) = prepared_series {
                                object_writer.write::<_, _, 4>(&prepared_series);
                            }
                            if let ::core::option::Option::Some(prepared_schemes) = prepared_schemes {
                                object_writer.write::<_, _, 4>(&prepared_schemes);
                            }
                            if let ::core::option::Option::Some(prepared_floats) = prepared_floats {
                                object_writer.write::<_, _, 4>(&prepared_floats);
                            }
                            if let ::core::option::Option::Some(prepared_histograms) = prepared_histograms {
                                object_writer.write::<_, _, 4>(&prepared_histograms);
                            }
                            if let ::core::option::Option::Some(prepared_float_histograms) = prepared_float_histograms {
                                object_writer.write::<_, _, 4>(&prepared_float_histograms);
                            }
                            if let ::core::option::Option::Some(prepared_texts) = prepared_texts {
                                object_writer.write::<_, _, 4>(&prepared_texts);
                            }
                            if let ::core::option::Option::Some(prepared_known) = prepared_known {
                                object_writer.write::<_, _, 4>(&prepared_known);
                            }
                        });
                    }
                    builder.current_offset()
                }
            }

            impl ::planus::WriteAs<::planus::Offset<Batch>> for Batch {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Batch> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl ::planus::WriteAsOptional<::planus::Offset<Batch>> for Batch {
                type Prepared = ::planus::Offset<Self>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Batch>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl ::planus::WriteAsOffset<Batch> for Batch {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Batch> {
                    Batch::create(
                        builder,
                        self.source_low,
                        self.source_high,
                        self.sequence,
                        &self.series,
                        &self.schemes,
                        &self.floats,
                        &self.histograms,
                        &self.float_histograms,
                        &self.texts,
                        &self.known,
                    )
                }
            }

            /// Builder for serializing an instance of the [Batch] type.
            ///
            /// Can be created using the [Batch::builder] method.
            #[derive(Debug)]
            #[must_use]
            pub struct BatchBuilder<State>(State);

            impl BatchBuilder<()> {
                /// Setter for the [`source_low` field](Batch#structfield.source_low).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn source_low<T0>(self, value: T0) -> BatchBuilder<(T0,)>
                where
                    T0: ::planus::WriteAsDefault<u64, u64>,
                {
                    BatchBuilder((value,))
                }

                /// Sets the [`source_low` field](Batch#structfield.source_low) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn source_low_as_default(self) -> BatchBuilder<(::planus::DefaultValue,)> {
                    self.source_low(::planus::DefaultValue)
                }
            }

            impl<T0> BatchBuilder<(T0,)> {
                /// Setter for the [`source_high` field](Batch#structfield.source_high).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn source_high<T1>(self, value: T1) -> BatchBuilder<(T0, T1)>
                where
                    T1: ::planus::WriteAsDefault<u64, u64>,
                {
                    let (v0,) = self.0;
                    BatchBuilder((v0, value))
                }

                /// Sets the [`source_high` field](Batch#structfield.source_high) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn source_high_as_default(self) -> BatchBuilder<(T0, ::planus::DefaultValue)> {
                    self.source_high(::planus::DefaultValue)
                }
            }

            impl<T0, T1> BatchBuilder<(T0, T1)> {
                /// Setter for the [`sequence` field](Batch#structfield.sequence).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn sequence<T2>(self, value: T2) -> BatchBuilder<(T0, T1, T2)>
                where
                    T2: ::planus::WriteAsDefault<u64, u64>,
                {
                    let (v0, v1) = self.0;
                    BatchBuilder((v0, v1, value))
                }

                /// Sets the [`sequence` field](Batch#structfield.sequence) to the default value.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn sequence_as_default(self) -> BatchBuilder<(T0, T1, ::planus::DefaultValue)> {
                    self.sequence(::planus::DefaultValue)
                }
            }

            impl<T0, T1, T2> BatchBuilder<(T0, T1, T2)> {
                /// Setter for the [`series` field](Batch#structfield.series).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn series<T3>(self, value: T3) -> BatchBuilder<(T0, T1, T2, T3)>
                where
                    T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Series>]>>,
                {
                    let (v0, v1, v2) = self.0;
                    BatchBuilder((v0, v1, v2, value))
                }

                /// Sets the [`series` field](Batch#structfield.series) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn series_as_null(self) -> BatchBuilder<(T0, T1, T2, ())> {
                    self.series(())
                }
            }

            impl<T0, T1, T2, T3> BatchBuilder<(T0, T1, T2, T3)> {
                /// Setter for the [`schemes` field](Batch#structfield.schemes).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn schemes<T4>(self, value: T4) -> BatchBuilder<(T0, T1, T2, T3, T4)>
                where
                    T4: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Scheme>]>>,
                {
                    let (v0, v1, v2, v3) = self.0;
                    BatchBuilder((v0, v1, v2, v3, value))
                }

                /// Sets the [`schemes` field](Batch#structfield.schemes) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn schemes_as_null(self) -> BatchBuilder<(T0, T1, T2, T3, ())> {
                    self.schemes(())
                }
            }

            impl<T0, T1, T2, T3, T4> BatchBuilder<(T0, T1, T2, T3, T4)> {
                /// Setter for the [`floats` field](Batch#structfield.floats).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn floats<T5>(self, value: T5) -> BatchBuilder<(T0, T1, T2, T3, T4, T5)>
                where
                    T5: ::planus::WriteAsOptional<::planus::Offset<self::Floats>>,
                {
                    let (v0, v1, v2, v3, v4) = self.0;
                    BatchBuilder((v0, v1, v2, v3, v4, value))
                }

                /// Sets the [`floats` field](Batch#structfield.floats) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn floats_as_null(self) -> BatchBuilder<(T0, T1, T2, T3, T4, ())> {
                    self.floats(())
                }
            }

            impl<T0, T1, T2, T3, T4, T5> BatchBuilder<(T0, T1, T2, T3, T4, T5)> {
                /// Setter for the [`histograms` field](Batch#structfield.histograms).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn histograms<T6>(self, value: T6) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6)>
                where
                    T6: ::planus::WriteAsOptional<::planus::Offset<self::Histograms>>,
                {
                    let (v0, v1, v2, v3, v4, v5) = self.0;
                    BatchBuilder((v0, v1, v2, v3, v4, v5, value))
                }

                /// Sets the [`histograms` field](Batch#structfield.histograms) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn histograms_as_null(self) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, ())> {
                    self.histograms(())
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6)> {
                /// Setter for the [`float_histograms` field](Batch#structfield.float_histograms).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn float_histograms<T7>(self, value: T7) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
                where
                    T7: ::planus::WriteAsOptional<::planus::Offset<self::FloatHistograms>>,
                {
                    let (v0, v1, v2, v3, v4, v5, v6) = self.0;
                    BatchBuilder((v0, v1, v2, v3, v4, v5, v6, value))
                }

                /// Sets the [`float_histograms` field](Batch#structfield.float_histograms) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn float_histograms_as_null(self) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, ())> {
                    self.float_histograms(())
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6, T7> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)> {
                /// Setter for the [`texts` field](Batch#structfield.texts).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn texts<T8>(self, value: T8) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8)>
                where
                    T8: ::planus::WriteAsOptional<::planus::Offset<self::Texts>>,
                {
                    let (v0, v1, v2, v3, v4, v5, v6, v7) = self.0;
                    BatchBuilder((v0, v1, v2, v3, v4, v5, v6, v7, value))
                }

                /// Sets the [`texts` field](Batch#structfield.texts) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn texts_as_null(self) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, ())> {
                    self.texts(())
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6, T7, T8> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8)> {
                /// Setter for the [`known` field](Batch#structfield.known).
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn known<T9>(self, value: T9) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
                where
                    T9: ::planus::WriteAsOptional<::planus::Offset<[self::SeriesKey]>>,
                {
                    let (v0, v1, v2, v3, v4, v5, v6, v7, v8) = self.0;
                    BatchBuilder((v0, v1, v2, v3, v4, v5, v6, v7, v8, value))
                }

                /// Sets the [`known` field](Batch#structfield.known) to null.
                #[inline]
                #[allow(clippy::type_complexity)]
                pub fn known_as_null(self) -> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, ())> {
                    self.known(())
                }
            }

            impl<T0, T1, T2, T3, T4, T5, T6, T7, T8, T9> BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)> {
                /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [Batch].
                #[inline]
                pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<Batch>
                where
                    Self: ::planus::WriteAsOffset<Batch>,
                {
                    ::planus::WriteAsOffset::prepare(&self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAsDefault<u64, u64>,
                    T1: ::planus::WriteAsDefault<u64, u64>,
                    T2: ::planus::WriteAsDefault<u64, u64>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Series>]>>,
                    T4: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Scheme>]>>,
                    T5: ::planus::WriteAsOptional<::planus::Offset<self::Floats>>,
                    T6: ::planus::WriteAsOptional<::planus::Offset<self::Histograms>>,
                    T7: ::planus::WriteAsOptional<::planus::Offset<self::FloatHistograms>>,
                    T8: ::planus::WriteAsOptional<::planus::Offset<self::Texts>>,
                    T9: ::planus::WriteAsOptional<::planus::Offset<[self::SeriesKey]>>,
                > ::planus::WriteAs<::planus::Offset<Batch>>
                for BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
            {
                type Prepared = ::planus::Offset<Batch>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Batch> {
                    ::planus::WriteAsOffset::prepare(self, builder)
                }
            }

            impl<
                    T0: ::planus::WriteAsDefault<u64, u64>,
                    T1: ::planus::WriteAsDefault<u64, u64>,
                    T2: ::planus::WriteAsDefault<u64, u64>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Series>]>>,
                    T4: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Scheme>]>>,
                    T5: ::planus::WriteAsOptional<::planus::Offset<self::Floats>>,
                    T6: ::planus::WriteAsOptional<::planus::Offset<self::Histograms>>,
                    T7: ::planus::WriteAsOptional<::planus::Offset<self::FloatHistograms>>,
                    T8: ::planus::WriteAsOptional<::planus::Offset<self::Texts>>,
                    T9: ::planus::WriteAsOptional<::planus::Offset<[self::SeriesKey]>>,
                > ::planus::WriteAsOptional<::planus::Offset<Batch>>
                for BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
            {
                type Prepared = ::planus::Offset<Batch>;

                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Batch>> {
                    ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
                }
            }

            impl<
                    T0: ::planus::WriteAsDefault<u64, u64>,
                    T1: ::planus::WriteAsDefault<u64, u64>,
                    T2: ::planus::WriteAsDefault<u64, u64>,
                    T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Series>]>>,
                    T4: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Scheme>]>>,
                    T5: ::planus::WriteAsOptional<::planus::Offset<self::Floats>>,
                    T6: ::planus::WriteAsOptional<::planus::Offset<self::Histograms>>,
                    T7: ::planus::WriteAsOptional<::planus::Offset<self::FloatHistograms>>,
                    T8: ::planus::WriteAsOptional<::planus::Offset<self::Texts>>,
                    T9: ::planus::WriteAsOptional<::planus::Offset<[self::SeriesKey]>>,
                > ::planus::WriteAsOffset<Batch> for BatchBuilder<(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9)>
            {
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Batch> {
                    let (v0, v1, v2, v3, v4, v5, v6, v7, v8, v9) = &self.0;
                    Batch::create(builder, v0, v1, v2, v3, v4, v5, v6, v7, v8, v9)
                }
            }

            /// Reference to a deserialized [Batch].
            #[derive(Copy, Clone)]
            pub struct BatchRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

            impl<'a> BatchRef<'a> {
                /// Getter for the [`source_low` field](Batch#structfield.source_low).
                #[inline]
                pub fn source_low(&self) -> ::planus::Result<u64> {
                    ::core::result::Result::Ok(self.0.access(0, "Batch", "source_low")?.unwrap_or(0))
                }

                /// Getter for the [`source_high` field](Batch#structfield.source_high).
                #[inline]
                pub fn source_high(&self) -> ::planus::Result<u64> {
                    ::core::result::Result::Ok(self.0.access(1, "Batch", "source_high")?.unwrap_or(0))
                }

                /// Getter for the [`sequence` field](Batch#structfield.sequence).
                #[inline]
                pub fn sequence(&self) -> ::planus::Result<u64> {
                    ::core::result::Result::Ok(self.0.access(2, "Batch", "sequence")?.unwrap_or(0))
                }

                /// Getter for the [`series` field](Batch#structfield.series).
                #[inline]
                pub fn series(
                    &self,
                ) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, ::planus::Result<self::SeriesRef<'a>>>>>
                {
                    self.0.access(3, "Batch", "series")
                }

                /// Getter for the [`schemes` field](Batch#structfield.schemes).
                #[inline]
                pub fn schemes(
                    &self,
                ) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, ::planus::Result<self::SchemeRef<'a>>>>>
                {
                    self.0.access(4, "Batch", "schemes")
                }

                /// Getter for the [`floats` field](Batch#structfield.floats).
                #[inline]
                pub fn floats(&self) -> ::planus::Result<::core::option::Option<self::FloatsRef<'a>>> {
                    self.0.access(5, "Batch", "floats")
                }

                /// Getter for the [`histograms` field](Batch#structfield.histograms).
                #[inline]
                pub fn histograms(&self) -> ::planus::Result<::core::option::Option<self::HistogramsRef<'a>>> {
                    self.0.access(6, "Batch", "histograms")
                }

                /// Getter for the [`float_histograms` field](Batch#structfield.float_histograms).
                #[inline]
                pub fn float_histograms(
                    &self,
                ) -> ::planus::Result<::core::option::Option<self::FloatHistogramsRef<'a>>> {
                    self.0.access(7, "Batch", "float_histograms")
                }

                /// Getter for the [`texts` field](Batch#structfield.texts).
                #[inline]
                pub fn texts(&self) -> ::planus::Result<::core::option::Option<self::TextsRef<'a>>> {
                    self.0.access(8, "Batch", "texts")
                }

                /// Getter for the [`known` field](Batch#structfield.known).
                #[inline]
                pub fn known(
                    &self,
                ) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, self::SeriesKeyRef<'a>>>>
                {
                    self.0.access(9, "Batch", "known")
                }
            }

            impl<'a> ::core::fmt::Debug for BatchRef<'a> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut f = f.debug_struct("BatchRef");
                    f.field("source_low", &self.source_low());
                    f.field("source_high", &self.source_high());
                    f.field("sequence", &self.sequence());
                    if let ::core::option::Option::Some(field_series) = self.series().transpose() {
                        f.field("series", &field_series);
                    }
                    if let ::core::option::Option::Some(field_schemes) = self.schemes().transpose() {
                        f.field("schemes", &field_schemes);
                    }
                    if let ::core::option::Option::Some(field_floats) = self.floats().transpose() {
                        f.field("floats", &field_floats);
                    }
                    if let ::core::option::Option::Some(field_histograms) = self.histograms().transpose() {
                        f.field("histograms", &field_histograms);
                    }
                    if let ::core::option::Option::Some(field_float_histograms) = self.float_histograms().transpose() {
                        f.field("float_histograms", &field_float_histograms);
                    }
                    if let ::core::option::Option::Some(field_texts) = self.texts().transpose() {
                        f.field("texts", &field_texts);
                    }
                    if let ::core::option::Option::Some(field_known) = self.known().transpose() {
                        f.field("known", &field_known);
                    }
                    f.finish()
                }
            }

            impl<'a> ::core::convert::TryFrom<BatchRef<'a>> for Batch {
                type Error = ::planus::Error;

                #[allow(unreachable_code)]
                fn try_from(value: BatchRef<'a>) -> ::planus::Result<Self> {
                    ::core::result::Result::Ok(Self {
                        source_low: ::core::convert::TryInto::try_into(value.source_low()?)?,
                        source_high: ::core::convert::TryInto::try_into(value.source_high()?)?,
                        sequence: ::core::convert::TryInto::try_into(value.sequence()?)?,
                        series: if let ::core::option::Option::Some(series) = value.series()? {
                            ::core::option::Option::Some(series.to_vec_result()?)
                        } else {
                            ::core::option::Option::None
                        },
                        schemes: if let ::core::option::Option::Some(schemes) = value.schemes()? {
                            ::core::option::Option::Some(schemes.to_vec_result()?)
                        } else {
                            ::core::option::Option::None
                        },
                        floats: if let ::core::option::Option::Some(floats) = value.floats()? {
                            ::core::option::Option::Some(::planus::alloc::boxed::Box::new(
                                ::core::convert::TryInto::try_into(floats)?,
                            ))
                        } else {
                            ::core::option::Option::None
                        },
                        histograms: if let ::core::option::Option::Some(histograms) = value.histograms()? {
                            ::core::option::Option::Some(::planus::alloc::boxed::Box::new(
                                ::core::convert::TryInto::try_into(histograms)?,
                            ))
                        } else {
                            ::core::option::Option::None
                        },
                        float_histograms: if let ::core::option::Option::Some(float_histograms) =
                            value.float_histograms()?
                        {
                            ::core::option::Option::Some(::planus::alloc::boxed::Box::new(
                                ::core::convert::TryInto::try_into(float_histograms)?,
                            ))
                        } else {
                            ::core::option::Option::None
                        },
                        texts: if let ::core::option::Option::Some(texts) = value.texts()? {
                            ::core::option::Option::Some(::planus::alloc::boxed::Box::new(
                                ::core::convert::TryInto::try_into(texts)?,
                            ))
                        } else {
                            ::core::option::Option::None
                        },
                        known: if let ::core::option::Option::Some(known) = value.known()? {
                            ::core::option::Option::Some(known.to_vec()?)
                        } else {
                            ::core::option::Option::None
                        },
                    })
                }
            }

            impl<'a> ::planus::TableRead<'a> for BatchRef<'a> {
                #[inline]
                fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
                    ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
                }
            }

            impl<'a> ::planus::VectorReadInner<'a> for BatchRef<'a> {
                type Error = ::planus::Error;
                const STRIDE: usize = 4;

                unsafe fn from_buffer(
                    buffer: ::planus::SliceWithStartOffset<'a>,
                    offset: usize,
                ) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                        error_kind.with_error_location("[BatchRef]", "get", buffer.offset_from_start)
                    })
                }
            }

            /// # Safety
            /// The planus compiler generates implementations that initialize
            /// the bytes in `write_values`.
            unsafe impl ::planus::VectorWrite<::planus::Offset<Batch>> for Batch {
                type Value = ::planus::Offset<Batch>;
                const STRIDE: usize = 4;
                #[inline]
                fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
                    ::planus::WriteAs::prepare(self, builder)
                }

                #[inline]
                unsafe fn write_values(
                    values: &[::planus::Offset<Batch>],
                    bytes: *mut ::core::mem::MaybeUninit<u8>,
                    buffer_position: u32,
                ) {
                    let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
                    for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                        ::planus::WriteAsPrimitive::write(
                            v,
                            ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                            buffer_position - (Self::STRIDE * i) as u32,
                        );
                    }
                }
            }

            impl<'a> ::planus::ReadAsRoot<'a> for BatchRef<'a> {
                fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
                    ::planus::TableRead::from_buffer(
                        ::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 },
                        0,
                    )
                    .map_err(|error_kind| error_kind.with_error_location("[BatchRef]", "read_as_root", 0))
                }
            }
        }
    }
}
