//! Plots as SVG. The name of a mark stands beside it: no legend has to be looked up, and no two colours have to be
//! told apart.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

use harness::report::OURS;

/// Width and height of a plot, of a letter in the mean, and height of a name.
const SIZE: (u32, u32) = (440, 250);
const LETTER: u32 = 7;
const NAME: i32 = 13;

/// Colours on light paper, and what replaces each on a dark screen: ours, that of words, that of lines, and the peers'.
const PALETTE: [(RGBColor, &str); 12] = [
    (RGBColor(0x00, 0x5f, 0xae), "#6cbcff"),
    (RGBColor(0x62, 0x6a, 0x73), "#9aa3ac"),
    (RGBColor(0xdd, 0xe1, 0xe5), "#2d3339"),
    (RGBColor(0xb3, 0x40, 0x0a), "#f28c5b"),
    (RGBColor(0x00, 0x79, 0x5a), "#3fc79d"),
    (RGBColor(0xa4, 0x48, 0x7f), "#e39bc8"),
    (RGBColor(0x96, 0x69, 0x0a), "#e2b14c"),
    (RGBColor(0x5b, 0x6d, 0xd0), "#a5b0f5"),
    (RGBColor(0x2b, 0x2f, 0x33), "#f4f5f6"),
    (RGBColor(0x7a, 0x52, 0x30), "#cfa27c"),
    (RGBColor(0x5a, 0x8a, 0x1f), "#a9d66b"),
    (RGBColor(0x8b, 0x93, 0x9b), "#858e97"),
];
const OUR: RGBColor = PALETTE[0].0;
const QUIET: RGBColor = PALETTE[1].0;
const RULE: RGBColor = PALETTE[2].0;
const PEER: usize = 3;
const PEERS: usize = 9;
/// Where the first row of dots begins.
const ROWS_TOP: i32 = 40;

type Drawn = Result<(), Box<dyn Error>>;

/// A plot on scales from zero on, or of dots in rows; and the name of its file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Plot {
    pub(super) name: String,
    /// What the scales show; of rows, the two panels.
    pub(super) axes: [String; 2],
    /// The names of rows, in which dots show a ratio.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rows: Vec<String>,
    pub(super) curves: Vec<Curve>,
}

/// A system and its points: a curve, or a single mark.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Curve {
    pub(super) system: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws the curves, ours above the others.
pub(super) fn draw(plot: &Plot) -> String {
    let mut svg = String::new();
    let size = if plot.rows.is_empty() {
        SIZE
    } else {
        (SIZE.0, ROWS_TOP as u32 + 17 * plot.rows.len() as u32 + 24)
    };
    let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let draw: fn(&DrawingArea<SVGBackend<'_>, Shift>, &Plot) -> Drawn = match plot {
        Plot { curves, .. } if curves.is_empty() => {
            |canvas, _| write(canvas, "not measured", (20, 20), QUIET)
        }
        Plot { rows, .. } if !rows.is_empty() => draw_rows,
        _ => draw_on,
    };
    draw(&canvas, plot).expect("a text takes what is drawn");
    drop(canvas);
    // Attributes have the light colours, for programs that know no style sheets.
    let mut dark = String::from("svg>rect:first-of-type{fill:#14171a}");
    for (RGBColor(r, g, b), color) in PALETTE {
        dark += &format!(
            "[fill='#{r:02X}{g:02X}{b:02X}']{{fill:{color}}}[stroke='#{r:02X}{g:02X}{b:02X}']{{stroke:{color}}}\n"
        );
    }
    let style = format!(
        ">\n<style>:root{{color-scheme:light dark}}\n@media (prefers-color-scheme:dark){{{dark}}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>"
    );
    svg.replace('\n', "").replace("<text", "\n<text").replacen('>', &style, 1) + "\n"
}

fn draw_on(canvas: &DrawingArea<SVGBackend<'_>, Shift>, Plot { axes, curves, .. }: &Plot) -> Drawn {
    let longest = curves.iter().map(|curve| curve.system.chars().count()).max().unwrap_or(0) as u32;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let (x, y) = (points().map(|at| at.0).fold(0.0, f64::max), points().map(|at| at.1).fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(14)
        .margin_right(longest * LETTER + 20)
        .x_label_area_size(34)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..1.02 * x, 0.0..1.02 * y)?;
    let label = ("sans-serif", 13).into_font().color(&QUIET);
    let number = |value: &f64| ((value * 100.0).round() / 100.0).to_string();
    chart
        .configure_mesh()
        .axis_style(QUIET)
        .bold_line_style(RULE)
        .light_line_style(TRANSPARENT)
        .x_labels(6)
        .y_labels(6)
        .x_desc(&axes[0])
        .label_style(label)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()?;
    write(canvas, &axes[1], (2, 6), QUIET)?;
    let top = |curve: &Curve| curve.points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let tops = curves.iter().map(|curve| top(curve).expect("a curve that is drawn has points"));
    let tops: Vec<(i32, i32)> = tops.map(|top| chart.plotting_area().map_coordinate(&top)).collect();
    let names = spread(&tops.iter().map(|top| top.1).collect::<Vec<_>>(), 14, SIZE.1 as i32 - 34);
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by_key(|&place| curves[place].system == OURS);
    for place in order {
        let Curve { system, points } = &curves[place];
        let is_ours = system == OURS;
        let color = if is_ours { OUR } else { PALETTE[PEER + place % PEERS].0 };
        if let [point] = points[..] {
            chart.draw_series([Circle::new(point, 3, color.filled())])?;
        }
        let style = color.stroke_width(if is_ours { 3 } else { 1 });
        chart.draw_series([PathElement::new(&points[..], style)])?;
        let at = ((SIZE.0 - longest * LETTER) as i32 - 6, names[place]);
        canvas.draw(&PathElement::new([tops[place], (at.0 - 3, at.1)], color.mix(0.4)))?;
        write(canvas, system, at, color)?;
    }
    Ok(canvas.present()?)
}

/// Draws dots in rows, in two panels: curves whose names begin alike have one colour, and are drawn in the second panel
/// if their name ends in that of it.
fn draw_rows(canvas: &DrawingArea<SVGBackend<'_>, Shift>, Plot { axes, rows, curves, .. }: &Plot) -> Drawn {
    let ratios = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
    let (least, most) =
        (ratios().fold(0.5, f64::min).max(0.05).ln(), ratios().fold(2.0, f64::max).min(20.0).ln());
    let (width, bottom) = (160, ROWS_TOP + 17 * rows.len() as i32);
    let left = |panel: usize| 96 + panel as i32 * (width + 14);
    let x = |panel, ratio: f64| {
        left(panel)
            + ((ratio.max(0.05).ln().clamp(least, most) - least) / (most - least) * f64::from(width)) as i32
    };
    let y = |row: usize| ROWS_TOP + 17 * row as i32 + 8;
    for (row, name) in rows.iter().enumerate() {
        write(canvas, name, (2, y(row)), QUIET)?;
    }
    for (panel, title) in axes.iter().enumerate() {
        write(canvas, title, (left(panel), 10), QUIET)?;
        for ratio in [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0] {
            if (least - 0.01..most + 0.01).contains(&f64::ln(ratio)) {
                let line = [(x(panel, ratio), ROWS_TOP), (x(panel, ratio), bottom)];
                canvas.draw(&PathElement::new(line, if ratio == 1.0 { QUIET } else { RULE }))?;
                write(canvas, &ratio.to_string(), (x(panel, ratio) - 4, bottom + 12), QUIET)?;
            }
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for Curve { system, points } in curves {
        let (name, panel) = system.split_once(", ").map_or((&**system, 0), |(name, _)| (name, 1));
        let place = names.iter().position(|own| *own == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        let color = [PALETTE[PEER].0, PALETTE[PEER + 1].0, OUR][place % 3];
        write(canvas, name, (96 + 110 * place as i32, 28), color)?;
        for &(row, ratio) in points {
            canvas.draw(&Circle::new((x(panel, ratio), y(row as usize)), 3, color.filled()))?;
        }
    }
    Ok(canvas.present()?)
}

fn write(canvas: &DrawingArea<SVGBackend<'_>, Shift>, words: &str, at: (i32, i32), color: RGBColor) -> Drawn {
    let font = ("sans-serif", 14).into_font().color(&color).pos(Pos::new(HPos::Left, VPos::Center));
    Ok(canvas.draw(&Text::new(words.to_owned(), at, font))?)
}

/// Returns places near the wanted ones, in their order, that leave room for a name each, between `top` and `bottom`.
fn spread(wanted: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&place| wanted[place]);
    let mut places = wanted.to_vec();
    let mut least = top;
    for &place in &order {
        places[place] = places[place].max(least);
        least = places[place] + NAME;
    }
    let mut most = bottom;
    for &place in order.iter().rev() {
        places[place] = places[place].min(most);
        most = places[place] - NAME;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_overlap_and_keep_their_order() {
        assert_eq!(spread(&[50, 51, 200, 50, 199], 10, 200), [50, 76, 200, 63, 187]);
    }

    #[test]
    fn plot_is_a_file_with_names_scales_and_two_palettes() {
        let curve = |system: &str, points| Curve { system: system.to_owned(), points };
        let curves = vec![curve(OURS, vec![(1.0, 2.0), (64.0, 9.0)]), curve("peer", vec![(32.0, 4.0)])];
        let axes = ["threads", "waits"].map(String::from);
        let svg = draw(&Plot { axes, curves, ..Plot::default() });
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        for part in [
            ">stillpoint<",
            ">peer<",
            ">threads<",
            ">60<",
            "<polyline",
            "<circle",
            "[fill='#005FAE']{fill:#6cbcff}",
            "xmlns=",
            "prefers-color-scheme",
        ] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
    }
    #[test]
    fn rows_have_dots_in_two_panels_and_an_empty_plot_says_so() {
        let curve = |system: &str, points| Curve { system: system.to_owned(), points };
        let curves = vec![
            curve("8 threads", vec![(0.0, 2.0), (1.0, 0.5)]),
            curve("8 threads, one CPU", vec![(0.0, 9.0)]),
        ];
        let rows = ["bank", "pool"].map(String::from).to_vec();
        let svg =
            draw(&Plot { axes: ["all CPUs", "one CPU"].map(String::from), rows, curves, ..Plot::default() });
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!([">pool<", ">one CPU<", ">8 threads<"].iter().all(|text| svg.contains(text)), "{svg}");
        assert!(draw(&Plot::default()).contains(">not measured<"));
    }
}
