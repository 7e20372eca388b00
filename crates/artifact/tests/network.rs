//! A program becomes a file, the file a model, and the model computes what the program says.

use std::sync::Arc;

use talweg_artifact::{BuildOptions, Choice, build};
use talweg_graph::{Graph, Program, Step, Task, ValueId, Work};
use talweg_ir::{Array, Source, eval_dag};
use talweg_ops::Spec;
use talweg_runtime::model::{Model, ModelError, Session, SessionOptions};
use talweg_target::Target;
use talweg_tensor::op::Unary;
use talweg_tensor::{ElementType, Op, Tensor, TensorType};

const M: usize = 6;
const N: usize = 24;

fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|i| ((i * 37 + seed * 11) % 17) as f32 / 8.0 - 1.0).collect();
    Tensor::new(shape, values)
}

/// `y = dense(dense(x))` with two sets of weights and one kernel, `v` the same under another shape, `c` a constant,
/// `z = floor(y)` by plain code.
fn program() -> Program {
    let spec = Spec::parse(&format!("matmul:m={M},n={N},k={N},epilogue=bias+relu")).unwrap();
    let dag = spec.build().unwrap();
    let mut graph = Graph::new("two dense layers");
    let ty = TensorType::new(ElementType::F32, [M, N]);
    let x = graph.add_input("x", ty.clone());
    let hidden = graph.add_value("hidden", ty.clone());
    let y = graph.add_value("y", ty.clone());
    let v = graph.add_value("v", TensorType::new(ElementType::F32, [M * N]));
    let z = graph.add_value("z", ty);
    let c = graph.add_constant("c", numbers(&[3], 5));
    let mut dense = |input: ValueId, output: ValueId, seed: usize| {
        let mut inputs = Vec::new();
        for tensor in &dag.tensors {
            let shape: Vec<usize> = tensor.const_shape().unwrap().iter().map(|e| *e as usize).collect();
            match tensor.source {
                Source::Input => inputs.push(Some(input)),
                Source::Const => {
                    inputs.push(Some(graph.add_constant(&tensor.name, numbers(&shape, seed + inputs.len()))))
                }
                Source::Compute(_) => {}
            }
        }
        Step { work: Work::Kernel(0), inputs, outputs: vec![output], nodes: vec![format!("dense{seed}")] }
    };
    let first = dense(x, hidden, 1);
    let second = dense(hidden, y, 2);
    let view = Step { work: Work::View, inputs: vec![Some(y)], outputs: vec![v], nodes: vec!["view".into()] };
    let floor = Op::Unary(Unary::Floor);
    let plain = Step {
        work: Work::Plain(floor),
        inputs: vec![Some(y)],
        outputs: vec![z],
        nodes: vec!["floor".into()],
    };
    graph.outputs = vec![y, v, z, c];
    let text = dag.to_string();
    Program::new(graph, vec![Task { dag, text, uses: 2 }], vec![first, second, view, plain], vec![])
}

fn artefact_bytes(program: &Program) -> Vec<u8> {
    let options = BuildOptions { target: Target::host(), jobs: 2 };
    build(program, &options, &|_| Choice::Default).unwrap().to_bytes().unwrap()
}

/// One dense layer by the interpreter.
fn expected(program: &Program, step: &Step, x: &[f32]) -> Vec<f32> {
    let dag = &program.tasks[0].dag;
    let given = dag.ids().filter(|id| !matches!(dag.tensor(*id).source, Source::Compute(_)));
    let arrays: Vec<_> = given
        .zip(&step.inputs)
        .map(|(id, value)| {
            let tensor = dag.tensor(id);
            let shape: Vec<usize> = tensor.const_shape().unwrap().iter().map(|e| *e as usize).collect();
            let constant = program.graph.constant(value.unwrap());
            let values = constant.map_or(x.to_vec(), |tensor| tensor.values::<f32>().into_owned());
            (id, Array::from_f32(tensor.dtype, &shape, &values).unwrap())
        })
        .collect();
    eval_dag(dag, &arrays).unwrap()[0].1.as_f32().unwrap().to_vec()
}

#[test]
fn a_model_computes_what_its_program_says() {
    let program = program();
    let model = Arc::new(Model::from_bytes(&artefact_bytes(&program)).unwrap());
    let x = numbers(&[M, N], 9);
    let hidden = expected(&program, &program.steps[0], &x.values::<f32>());
    let want = expected(&program, &program.steps[1], &hidden);
    for threads in [1, 2] {
        let mut session = Session::new(model.clone(), &SessionOptions { threads, pin: false }).unwrap();
        for _ in 0..2 {
            let outputs = session.run(std::slice::from_ref(&x)).unwrap();
            for (got, want) in outputs[0].values::<f32>().iter().zip(&want) {
                assert!((got - want).abs() <= 1e-4 * want.abs().max(1.0), "{got} for {want}");
            }
            assert_eq!(outputs[1].shape(), [M * N]);
            assert_eq!(outputs[1].bytes(), outputs[0].bytes());
            let floors: Vec<f32> = outputs[0].values::<f32>().iter().map(|v| v.floor()).collect();
            assert_eq!(outputs[2].values::<f32>().as_ref(), floors);
            assert_eq!(outputs[3], numbers(&[3], 5));
        }
    }
}

#[test]
fn a_run_on_foreign_memory_is_the_same_run() {
    let all = program();
    let mut one = program();
    one.graph.outputs.truncate(1);
    one.steps.truncate(2);
    for program in [all, one] {
        let model = Arc::new(Model::from_bytes(&artefact_bytes(&program)).unwrap());
        let mut session = Session::new(model, &SessionOptions { threads: 2, pin: false }).unwrap();
        for seed in 0..2 {
            let x = numbers(&[M, N], seed);
            let want = session.run(std::slice::from_ref(&x)).unwrap();
            // One byte into a buffer nothing is aligned, and everything is copied.
            for shift in [4, 1] {
                let mut given = vec![0u8; x.bytes().len() + shift];
                given[shift..].copy_from_slice(x.bytes());
                let sizes: Vec<usize> = want.iter().map(|output| output.bytes().len()).collect();
                let mut outputs: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; size + shift + 1]).collect();
                let pointers: Vec<*mut u8> = outputs.iter_mut().map(|o| o[shift..].as_mut_ptr()).collect();
                // SAFETY: every pointer has as many bytes behind it as its port, in a vector of its own.
                unsafe { session.run_on(&[given[shift..].as_ptr()], &pointers) }.unwrap();
                assert_eq!(&given[shift..], x.bytes());
                for (output, want) in outputs.iter().zip(&want) {
                    let (head, rest) = output.split_at(shift);
                    let (body, tail) = rest.split_at(want.bytes().len());
                    assert_eq!(body, want.bytes());
                    assert!(head.iter().chain(tail).all(|byte| *byte == 7), "written outside");
                }
            }
            assert_eq!(session.run(std::slice::from_ref(&x)).unwrap(), want);
        }
        // SAFETY: nothing is read or written when the numbers do not agree.
        let none = unsafe { session.run_on(&[], &[]) }.unwrap_err().to_string();
        assert!(none.contains("1 inputs (`x`), memory was given for 0"), "{none}");
    }
}

#[test]
fn wrong_inputs_are_named() {
    let model = Arc::new(Model::from_bytes(&artefact_bytes(&program())).unwrap());
    let mut session = Session::new(model, &SessionOptions { threads: 1, pin: false }).unwrap();
    let none = session.run(&[]).unwrap_err().to_string();
    assert!(none.contains("1 inputs (`x`), 0 were given"), "{none}");
    let other = session.run(&[numbers(&[N, M], 1)]).unwrap_err().to_string();
    assert!(other.contains("input `x` is f32[6,24], given was f32[24,6]"), "{other}");
}

#[test]
fn another_machine_is_refused() {
    let program = program();
    let options = BuildOptions { target: Target::host(), jobs: 1 };
    let mut artefact = build(&program, &options, &|_| Choice::Default).unwrap();
    artefact.manifest.features.push("no-such-feature".into());
    let error = Model::from_bytes(&artefact.to_bytes().unwrap()).unwrap_err();
    assert!(
        matches!(&error, ModelError::MissingFeatures(missing) if missing == &["no-such-feature"]),
        "{error}"
    );
    artefact.manifest.arch = "other".into();
    let error = Model::from_bytes(&artefact.to_bytes().unwrap()).unwrap_err();
    assert!(error.to_string().contains("code for other"), "{error}");
}

#[test]
fn a_file_is_whole_or_absent() {
    let folder = tempfile::tempdir().unwrap();
    let options = BuildOptions { target: Target::host(), jobs: 1 };
    let artefact = build(&program(), &options, &|_| Choice::Default).unwrap();
    let path = folder.path().join("net.talweg");
    artefact.write(&path).unwrap();
    artefact.write(&path).unwrap();
    assert_eq!(Model::open(&path).unwrap().manifest(), &artefact.manifest);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let error = artefact.write(&folder.path().join("missing/net.talweg")).unwrap_err().to_string();
    assert!(error.contains("cannot write"), "{error}");
}

#[test]
fn weights_shared_by_steps_are_stored_once() {
    let mut program = program();
    let options = BuildOptions { target: Target::host(), jobs: 1 };
    let two = build(&program, &options, &|_| Choice::Default).unwrap().weights_bytes();
    program.steps[1].inputs = program.steps[0].inputs.clone();
    program.steps[1].inputs[0] = Some(program.steps[0].outputs[0]);
    let one = build(&program, &options, &|_| Choice::Default).unwrap().weights_bytes();
    assert!(one < two, "{one} bytes shared, {two} apart");
}

#[test]
fn a_library_computes_what_the_model_computes() {
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: no C compiler `cc` on this machine");
        return;
    }
    let mut program = program();
    program.steps.truncate(3);
    program.graph.outputs.truncate(2);
    let options = BuildOptions { target: Target::host(), jobs: 1 };
    let artefact = build(&program, &options, &|_| Choice::Default).unwrap();
    let model = Arc::new(Model::from_bytes(&artefact.to_bytes().unwrap()).unwrap());
    let mut session = Session::new(model, &SessionOptions { threads: 1, pin: false }).unwrap();
    let x = numbers(&[M, N], 9);
    let want = session.run(std::slice::from_ref(&x)).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let library = artefact.write_library(&folder.path().join("net.so")).unwrap();
    let header = std::fs::read_to_string(&library.header).unwrap();
    assert!(header.contains("input 0: x f32[6,24], 576 bytes"), "{header}");
    let values: Vec<String> = x.values::<f32>().iter().map(|v| format!("{v:?}f")).collect();
    let main = format!(
        "#include \"net.h\"\n#include <stdio.h>\n#include <string.h>\nint main(void) {{\n\
         static const float x[] = {{{}}};\nfor (int threads = 1; threads <= 3; threads++) {{\n\
         two_dense_layers_session *s = two_dense_layers_create(threads);\nif (!s) return 1;\n\
         memcpy(two_dense_layers_input(s, 0), x, sizeof x);\n\
         for (int i = 0; i < 20; i++) two_dense_layers_run(s);\n\
         const float *y = two_dense_layers_output(s, 1);\n\
         if (two_dense_layers_output(s, 2) || !two_dense_layers_input(s, 0)) return 2;\n\
         for (int i = 0; i < {}; i++) printf(\"%.9g\\n\", y[i]);\ntwo_dense_layers_free(s);\n}}\nreturn 0;\n}}\n",
        values.join(","),
        M * N
    );
    std::fs::write(folder.path().join("main.c"), main).unwrap();
    let cc = |source: &str, output: &str| {
        let done = std::process::Command::new("cc")
            .current_dir(folder.path())
            .args(["-Wall", "-Werror", source, "-L.", "-l:net.so", "-Wl,-rpath,.", "-o", output])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let done = std::process::Command::new(folder.path().join(output))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{:?}", done.status);
        String::from_utf8(done.stdout).unwrap()
    };
    let got: Vec<f32> = cc("main.c", "main").lines().map(|line| line.parse().unwrap()).collect();
    let want = want[1].values::<f32>().repeat(3);
    assert_eq!(got, want);
    assert!(cc("two_dense_layers_example.c", "example").starts_with("y[0] = "));
}

#[test]
fn a_library_without_a_kernel_for_a_step_is_refused() {
    let options = BuildOptions { target: Target::host(), jobs: 1 };
    let artefact = build(&program(), &options, &|_| Choice::Default).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = artefact.write_library(&folder.path().join("net.so")).unwrap_err().to_string();
    assert!(error.contains("2 steps are plain code, the first of them floor"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
