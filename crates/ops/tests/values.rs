//! Values of every operator against naive loops written from the definitions.

mod blocked;
mod naive;

use naive::{Grid, Run, close, exact};

fn grid(run: &Run, name: &str) -> Grid {
    run.tensor(name)
}

#[test]
fn matmul_sums_products() {
    for (text, transposed) in [
        ("matmul:m=5,n=7,k=11,dtype=i32", false),
        ("matmul:m=5,n=7,k=11,dtype=i8,tb=1", true),
        ("matmul:m=1,n=1,k=1,dtype=i64,rhs=input", false),
    ] {
        let run = Run::of(text);
        let (a, b) = (grid(&run, "A"), grid(&run, "B"));
        let k = a.shape[1];
        exact(&run, |i| {
            (0..k)
                .map(|k| a.at(&[i[0], k]) * if transposed { b.at(&[i[1], k]) } else { b.at(&[k, i[1]]) })
                .sum()
        });
    }
}

#[test]
fn bytes_do_not_overflow_their_type() {
    let run = Run::of("matmul:m=2,n=2,k=400,dtype=i8");
    assert!(run.output.values.iter().any(|v| v.abs() > 127.0), "{:?}", run.output.values);
    let (a, b) = (grid(&run, "A"), grid(&run, "B"));
    exact(&run, |i| (0..400).map(|k| a.at(&[i[0], k]) * b.at(&[k, i[1]])).sum());
}

#[test]
fn batched_matmul_keeps_batches_apart() {
    for tb in [0, 1] {
        let run = Run::of(&format!("bmm:b=3,m=4,n=5,k=6,tb={tb},dtype=i32"));
        let (a, b) = (grid(&run, "A"), grid(&run, "B"));
        exact(&run, |i| {
            let rhs = |k| if tb == 1 { b.at(&[i[0], i[2], k]) } else { b.at(&[i[0], k, i[2]]) };
            (0..6).map(|k| a.at(&[i[0], i[1], k]) * rhs(k)).sum()
        });
    }
}

#[test]
fn conv1d_strides_and_dilates() {
    let run = Run::of("conv1d:n=2,w=17,c=3,f=5,k=3,s=2,dil=2,pl=3,pr=1,dtype=i32");
    let (x, w) = (grid(&run, "X"), grid(&run, "W"));
    exact(&run, |i| {
        let mut sum = 0.0;
        for k in 0..3 {
            for c in 0..3 {
                sum += x.or_zero(&[i[0], i[1] * 2 + k * 2 - 3, c]) * w.at(&[k, c, i[2]]);
            }
        }
        sum
    });
}

#[test]
fn conv2d_with_groups_and_asymmetric_padding() {
    for (text, groups, s, d, p) in [
        ("conv2d:h=7,w=9,c=4,f=5,kh=3,kw=2,pt=1,pl=2,pb=0,pr=1,dtype=i32", 1, 1, 1, (1, 2)),
        ("conv2d:n=2,h=7,w=9,c=6,f=9,kh=3,kw=2,g=3,s=2,dil=2,p=2,dtype=i32", 3, 2, 2, (2, 2)),
        ("conv2d:h=5,w=5,c=4,f=4,kh=3,kw=2,g=4,dtype=i8", 4, 1, 1, (0, 0)),
    ] {
        let run = Run::of(text);
        let (x, w) = (grid(&run, "X"), grid(&run, "W"));
        let (cpg, fpg) = (w.shape[2], w.shape[3] / groups);
        exact(&run, |i| {
            let mut sum = 0.0;
            for kh in 0..3 {
                for kw in 0..2 {
                    for c in 0..cpg {
                        let read =
                            [i[0], i[1] * s + kh * d - p.0, i[2] * s + kw * d - p.1, i[3] / fpg * cpg + c];
                        sum += x.or_zero(&read) * w.at(&[kh, kw, c, i[3]]);
                    }
                }
            }
            sum
        });
    }
}

#[test]
fn conv3d_reads_a_volume() {
    let run = Run::of("conv3d:d=4,h=5,w=6,c=2,f=3,k=3,s=2,p=1,dtype=i32");
    let (x, w) = (grid(&run, "X"), grid(&run, "W"));
    exact(&run, |i| {
        let mut sum = 0.0;
        for kd in 0..3 {
            for kh in 0..3 {
                for kw in 0..3 {
                    for c in 0..2 {
                        let read = [i[0], i[1] * 2 + kd - 1, i[2] * 2 + kh - 1, i[3] * 2 + kw - 1, c];
                        sum += x.or_zero(&read) * w.at(&[kd, kh, kw, c, i[4]]);
                    }
                }
            }
        }
        sum
    });
}

#[test]
fn depthwise_keeps_channels_apart() {
    let run = Run::of("depthwise:n=2,h=8,w=7,c=5,k=3,s=2,p=1,dil=2,dtype=i32");
    let (x, w) = (grid(&run, "X"), grid(&run, "W"));
    exact(&run, |i| {
        let mut sum = 0.0;
        for kh in 0..3 {
            for kw in 0..3 {
                let read = [i[0], i[1] * 2 + kh * 2 - 1, i[2] * 2 + kw * 2 - 1, i[3]];
                sum += x.or_zero(&read) * w.at(&[kh, kw, i[3]]);
            }
        }
        sum
    });
}

#[test]
fn separable_multiplies_what_depthwise_gives() {
    let run = Run::of("separable:n=2,h=8,w=7,c=5,f=3,k=3,s=2,p=1,middle=bias+relu,dtype=i32");
    let (x, w, b, p) = (grid(&run, "X"), grid(&run, "W"), grid(&run, "bias"), grid(&run, "P"));
    exact(&run, |i| {
        let mut sum = 0.0;
        for c in 0..5 {
            let mut deep = b.at(&[c]);
            for kh in 0..3 {
                for kw in 0..3 {
                    let read = [i[0], i[1] * 2 + kh - 1, i[2] * 2 + kw - 1, c];
                    deep += x.or_zero(&read) * w.at(&[kh, kw, c]);
                }
            }
            sum += deep.max(0.0) * p.at(&[0, 0, c, i[3]]);
        }
        sum
    });
}

/// Scatters every input over the outputs it reaches: the definition of a transposed convolution.
fn scatter(
    x: &Grid,
    w: &Grid,
    shape: &[i64],
    kernel: [i64; 2],
    s: [i64; 2],
    d: [i64; 2],
    p: [i64; 2],
) -> Grid {
    let mut out = Grid::zeros(shape);
    for n in 0..x.shape[0] {
        for h in 0..x.shape[1] {
            for v in 0..x.shape[2] {
                for kh in 0..kernel[0] {
                    for kw in 0..kernel[1] {
                        let (oh, ow) = (h * s[0] + kh * d[0] - p[0], v * s[1] + kw * d[1] - p[1]);
                        for c in 0..x.shape[3] {
                            for f in 0..shape[3] {
                                out.add(&[n, oh, ow, f], x.at(&[n, h, v, c]) * w.at(&[kh, kw, c, f]));
                            }
                        }
                    }
                }
            }
        }
    }
    out
}

#[test]
fn transposed_convolution_scatters_in_both_forms() {
    for (params, kernel, s, d, p) in [
        ("h=4,w=3,c=3,f=2,k=4,s=2,p=1", [4, 4], [2, 2], [1, 1], [1, 1]),
        ("h=4,w=3,c=3,f=2,k=3,s=2,p=1,op=1", [3, 3], [2, 2], [1, 1], [1, 1]),
        ("h=4,w=3,c=3,f=2,k=3,s=2", [3, 3], [2, 2], [1, 1], [0, 0]),
        ("h=4,w=3,c=3,f=2,k=3,s=1,p=2,dil=2", [3, 3], [1, 1], [2, 2], [2, 2]),
        ("h=4,w=3,c=3,f=2,k=2,s=3,op=2", [2, 2], [3, 3], [1, 1], [0, 0]),
        ("n=2,h=4,w=5,c=2,f=3,kh=5,kw=2,sh=3,sw=2,pt=2,pb=0,pl=1,pr=2", [5, 2], [3, 2], [1, 1], [2, 1]),
        ("h=5,w=5,c=1,f=1,k=1,s=3,p=1", [1, 1], [3, 3], [1, 1], [1, 1]),
        ("h=5,w=5,c=1,f=1,k=3,s=2,p=3", [3, 3], [2, 2], [1, 1], [3, 3]),
        ("h=5,w=5,c=1,f=1,k=3,s=4,p=3,op=3", [3, 3], [4, 4], [1, 1], [3, 3]),
        ("h=3,w=3,c=2,f=2,k=3,s=2,p=1,dil=2,op=1", [3, 3], [2, 2], [2, 2], [1, 1]),
    ] {
        for form in ["phased", "guarded"] {
            let text = format!("conv2d_transpose:{params},form={form},dtype=i32");
            // The phased form wants zeros in the taps past the kernel.
            let run = Run::with(&text, |name, at, value| {
                let outside = at.len() == 4 && (at[0] >= kernel[0] || at[1] >= kernel[1]);
                if name == "W" && outside { 0.0 } else { value }
            });
            let expected = scatter(&grid(&run, "X"), &grid(&run, "W"), &run.output.shape, kernel, s, d, p);
            exact(&run, |i| expected.at(i));
        }
    }
}

#[test]
fn transposed_convolution_in_one_and_three_dimensions() {
    for (phased, guarded) in [
        ("conv1d_transpose:n=2,w=5,c=3,f=2,k=4,s=2,p=1,epilogue=residual+relu", "form=guarded"),
        ("conv3d_transpose:d=2,h=3,w=2,c=2,f=3,k=2,s=2,epilogue=bias", "form=guarded"),
        ("conv3d_transpose:d=2,h=3,w=2,c=2,f=3,k=4,s=2,p=1,sd=4,epilogue=bias+residual", "form=guarded"),
    ] {
        let one = Run::of(&format!("{phased},dtype=i32"));
        let two = Run::of(&format!("{phased},{guarded},dtype=i32"));
        assert_eq!(one.output, two.output, "{phased}");
    }
}

#[test]
fn exact_phases_need_no_copy() {
    let names = |text: &str| -> Vec<String> {
        let dag = talweg_ops::Spec::parse(text).and_then(|s| s.build()).expect(text);
        dag.tensors.iter().map(|t| t.name.clone()).collect()
    };
    assert_eq!(names("conv2d_transpose:h=4,w=4,c=8,f=8,k=4,s=2,p=1"), ["X", "W", "X.pad", "conv"]);
    assert_eq!(names("conv2d_transpose:h=4,w=4,c=8,f=8,k=2,s=2"), ["X", "W", "conv"]);
    assert_eq!(names("conv2d_transpose:h=4,w=4,c=8,f=8,k=3,s=2"), ["X", "W", "X.pad", "conv", "crop"]);
}

#[test]
fn pooling_sees_only_the_input() {
    for (kind, counted) in [("max", 0), ("avg", 0), ("avg", 1)] {
        let text = format!(
            "pool2d:kind={kind},n=2,h=7,w=6,c=3,kh=3,kw=2,s=2,pt=1,pb=2,pl=1,pr=0,count_include_pad={counted}"
        );
        let run = Run::of(&text);
        let x = grid(&run, "X");
        close(&run, 1e-6, |i| {
            let mut inside = Vec::new();
            for kh in 0..3 {
                for kw in 0..2 {
                    inside.extend(x.get(&[i[0], i[1] * 2 + kh - 1, i[2] * 2 + kw - 1, i[3]]));
                }
            }
            match (kind, counted) {
                ("max", _) => inside.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                (_, 1) => inside.iter().sum::<f64>() / 6.0,
                _ => inside.iter().sum::<f64>() / inside.len() as f64,
            }
        });
    }
}

#[test]
fn pooling_with_dilation_counts_taps_inside() {
    let run = Run::of("pool1d:kind=avg,w=9,c=2,k=3,dil=2,p=3");
    let x = grid(&run, "X");
    close(&run, 1e-6, |i| {
        let inside: Vec<f64> = (0..3).filter_map(|k| x.get(&[i[0], i[1] + 2 * k - 3, i[2]])).collect();
        inside.iter().sum::<f64>() / inside.len() as f64
    });
}

#[test]
fn pooling_in_three_dimensions_and_globally() {
    let run = Run::of("pool3d:kind=max,d=4,h=4,w=5,c=2,k=2,s=2,dtype=i32");
    let x = grid(&run, "X");
    exact(&run, |i| {
        let mut best = f64::NEG_INFINITY;
        for at in 0..8 {
            let read = [i[0], i[1] * 2 + at / 4, i[2] * 2 + at / 2 % 2, i[3] * 2 + at % 2, i[4]];
            best = best.max(x.at(&read));
        }
        best
    });
    let run = Run::of("global_avgpool:n=2,h=3,w=5,c=4");
    let x = grid(&run, "X");
    close(&run, 1e-6, |i| (0..15).map(|s| x.at(&[i[0], s / 5, s % 5, i[1]])).sum::<f64>() / 15.0);
}

#[test]
fn reductions_along_rows() {
    for op in ["sum", "mean", "max", "min", "prod"] {
        let run = Run::of(&format!("reduce:op={op},rows=5,n=7"));
        let x = grid(&run, "X");
        close(&run, 1e-6, |i| {
            let row = (0..7).map(|j| x.at(&[i[0], j]));
            match op {
                "sum" => row.sum(),
                "mean" => row.sum::<f64>() / 7.0,
                "max" => row.fold(f64::NEG_INFINITY, f64::max),
                "min" => row.fold(f64::INFINITY, f64::min),
                _ => row.product(),
            }
        });
    }
    let run = Run::of("reduce:op=sum,rows=3,n=100,dtype=i8");
    let x = grid(&run, "X");
    exact(&run, |i| (0..100).map(|j| x.at(&[i[0], j])).sum());
}

#[test]
fn softmax_rows_are_distributions() {
    for (dtype, tolerance) in [("f32", 1e-6), ("bf16", 1e-2)] {
        let run = Run::of(&format!("softmax:rows=4,n=13,dtype={dtype}"));
        let x = grid(&run, "X");
        close(&run, tolerance, |i| {
            let sum: f64 = (0..13).map(|j| x.at(&[i[0], j]).exp()).sum();
            x.at(i).exp() / sum
        });
    }
}

#[test]
fn norms_normalise_rows() {
    let run = Run::of("layernorm:rows=3,n=17,eps=0.001");
    let (x, scale, bias) = (grid(&run, "X"), grid(&run, "scale"), grid(&run, "bias"));
    close(&run, 1e-5, |i| {
        let mean = (0..17).map(|j| x.at(&[i[0], j])).sum::<f64>() / 17.0;
        let variance = (0..17).map(|j| (x.at(&[i[0], j]) - mean).powi(2)).sum::<f64>() / 17.0;
        (x.at(i) - mean) / (variance + 0.001).sqrt() * scale.at(&[i[1]]) + bias.at(&[i[1]])
    });
    let run = Run::of("rmsnorm:rows=3,n=17,eps=0.001");
    let (x, scale) = (grid(&run, "X"), grid(&run, "scale"));
    close(&run, 1e-5, |i| {
        let mean = (0..17).map(|j| x.at(&[i[0], j]).powi(2)).sum::<f64>() / 17.0;
        x.at(i) / (mean + 0.001).sqrt() * scale.at(&[i[1]])
    });
}

/// erf by its series; enough terms for |x| < 4.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    2.0 / std::f64::consts::PI.sqrt() * sum
}

#[test]
fn activations_follow_their_definitions() {
    type Function = fn(f64) -> f64;
    let cases: [(&str, Function); 14] = [
        ("relu", |x| x.max(0.0)),
        ("relu6", |x| x.clamp(0.0, 6.0)),
        ("gelu", |x| x / 2.0 * (1.0 + erf(x / 2f64.sqrt()))),
        ("gelu_tanh", |x| {
            x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }),
        ("silu", |x| x / (1.0 + (-x).exp())),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
        ("tanh", f64::tanh),
        ("hardswish", |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        ("hardsigmoid", |x| (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        ("elu", |x| if x > 0.0 { x } else { x.exp() - 1.0 }),
        ("elu(0.5)", |x| if x > 0.0 { x } else { 0.5 * (x.exp() - 1.0) }),
        ("leaky_relu", |x| if x > 0.0 { x } else { 0.01 * x }),
        ("leaky_relu(-2)", |x| if x > 0.0 { x } else { -2.0 * x }),
        ("square", |x| x * x),
    ];
    for (name, f) in cases {
        let run = Run::with(&format!("elementwise:n=64,chain={name}"), |_, _, v| v * 8.0);
        let x = grid(&run, "X");
        if name.starts_with("gelu") {
            let run = Run::of(&format!("elementwise:n=64,chain={name}"));
            let x = grid(&run, "X");
            close(&run, 1e-6, |i| f(x.at(i)));
        } else {
            close(&run, 1e-6, |i| f(x.at(i)));
        }
    }
}

#[test]
fn epilogues_run_in_order_on_logical_channels() {
    let text = "conv2d:h=5,w=4,c=6,f=4,k=1,g=2,epilogue=bias+scale+relu+residual+bias,dtype=i32";
    let run = Run::of(text);
    let (x, w) = (grid(&run, "X"), grid(&run, "W"));
    let (bias, scale) = (grid(&run, "bias"), grid(&run, "scale"));
    let (residual, second) = (grid(&run, "residual"), grid(&run, "bias2"));
    exact(&run, |i| {
        let f = i[3];
        let sum: f64 = (0..3).map(|c| x.at(&[i[0], i[1], i[2], f / 2 * 3 + c]) * w.at(&[0, 0, c, f])).sum();
        ((sum + bias.at(&[f])) * scale.at(&[f])).max(0.0) + residual.at(i) + second.at(&[f])
    });
}

#[test]
fn elementwise_chains_bring_their_operands() {
    let run = Run::of("elementwise:rows=3,n=5,chain=add+mul+sub+max+min+add+bias,dtype=i32");
    let g = |n: &str| grid(&run, n);
    let names = ["X", "add", "mul", "sub", "max", "min", "add2"];
    let [x, add, mul, sub, max, min, add2] = names.map(g);
    let bias = g("bias");
    exact(&run, |i| {
        let v = ((x.at(i) + add.at(i)) * mul.at(i) - sub.at(i)).max(max.at(i)).min(min.at(i));
        v + add2.at(i) + bias.at(&[i[1]])
    });
}

#[test]
fn half_floats_round_once_at_the_end() {
    for dtype in ["f16", "bf16"] {
        let run = Run::of(&format!("matmul:m=4,n=4,k=64,dtype={dtype},epilogue=bias+relu"));
        let (a, b, bias) = (grid(&run, "A"), grid(&run, "B"), grid(&run, "bias"));
        let tolerance = if dtype == "f16" { 1e-3 } else { 8e-3 };
        close(&run, tolerance, |i| {
            let sum: f64 = (0..64).map(|k| a.at(&[i[0], k]) * b.at(&[k, i[1]])).sum();
            (sum + bias.at(&[i[1]])).max(0.0)
        });
    }
}
