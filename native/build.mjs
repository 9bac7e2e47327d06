// Builds the native addon with nothing but a C++ compiler and two header packages from npm.
//   node native/build.mjs         native/src/**/*.cc                    -> native/build/primerl.node
//   node native/build.mjs test    native/test/*.cc + core (without Node) -> programs, run one after another
//   node native/build.mjs sanitize  the tests, compiled with the sanitizers of addresses and of undefined behaviour
//   node native/build.mjs valgrind [NAME...]  the tests under valgrind's memcheck, but for those named cuda_*
//   node native/build.mjs bench   native/bench/*.cc + core               -> programs, for bench/*.ts to run
//   node native/build.mjs cuda    native/src/cuda/*.cu by nvcc           -> native/build/primerl_cuda.so
//   node native/build.mjs emulated-cuda  the same, on the emulated device -> native/build/primerl_cuda_emulated.so
//   node native/build.mjs cuda-test  native/test/cuda_*_test.cc by nvcc   -> programs, run one after another on device 0
// The first also builds the CUDA library where nvcc and a driver are, `test` compiles it where nvcc is. Tests named cuda_*
// run kernels on a device that native/test/cuda_emulation.h emulates.
// An object is compiled again when its source, a header it included, or the command line has changed.
import { execFileSync, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { basename, dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"

const native = dirname(fileURLToPath(import.meta.url))
const root = dirname(native)
const sanitizes = process.argv[2] === "sanitize"
const build = sanitizes ? join(native, "build", "sanitize") : join(native, "build")
const compiler = process.env.CXX || (process.platform === "darwin" ? "c++" : "g++")
const jobs = 2

const fail = (message) => {
  process.stderr.write(`native build: ${message}\n`)
  process.exit(1)
}

const requireCompiler = () => {
  try {
    return execFileSync(compiler, ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).split("\n")[0]
  } catch {
    const install = {
      darwin: "run xcode-select --install",
      linux: "install one, e.g. apt install g++, dnf install gcc-c++ or apk add g++"
    }
    return fail(
      `no C++ compiler: "${compiler}" does not run; ${install[process.platform] ?? "install g++ or clang++"}, or set CXX`
    )
  }
}

const headers = (name) => {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${name}/package.json`))
  } catch {
    return fail(`the npm package ${name} is missing: run npm install in ${root}`)
  }
}

const sources = (directory, ending = ".cc") =>
  existsSync(directory)
    ? readdirSync(directory, { withFileTypes: true })
        .sort((a, b) => (a.name < b.name ? -1 : 1))
        .flatMap((entry) => {
          const path = join(directory, entry.name)
          return entry.isDirectory() ? sources(path, ending) : entry.name.endsWith(ending) ? [path] : []
        })
    : []

const run = (command, args) =>
  new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    child.stdout.on("data", (chunk) => (output += chunk))
    child.stderr.on("data", (chunk) => (output += chunk))
    child.on("error", (error) => resolve({ ok: false, output: error.message }))
    child.on("close", (code) => resolve({ ok: code === 0, output }))
  })

const inParallel = async (tasks) => {
  const queue = [...tasks]
  const worker = async () => {
    for (let task = queue.shift(); task !== undefined; task = queue.shift()) await task()
  }
  await Promise.all(Array.from({ length: jobs }, worker))
}

const version = requireCompiler()
const sanitizers = sanitizes ? ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"] : []
const common = [...sanitizers, sanitizes ? "-O1" : "-O3", "-g1", "-std=c++17", "-fno-math-errno", "-fPIC", "-pthread", "-Wall", "-Wextra", `-I${join(native, "include")}`, `-I${join(native, "src")}`]
const bindingFlags = () => [
  "-DNAPI_VERSION=9",
  "-DNODE_ADDON_API_CPP_EXCEPTIONS",
  "-DNODE_ADDON_API_DISABLE_DEPRECATED",
  "-DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
  "-fvisibility=hidden",
  `-isystem${headers("node-addon-api")}`,
  `-isystem${join(headers("node-api-headers"), "include")}`
]

const stale = (target, signature) => {
  const depfile = `${target}.d`
  const stamp = `${target}.cmd`
  if (!existsSync(target) || !existsSync(depfile) || !existsSync(stamp)) return true
  if (readFileSync(stamp, "utf8") !== signature) return true
  const made = statSync(target).mtimeMs
  const inputs = readFileSync(depfile, "utf8").replace(/\\\n/g, " ").replace(/^.*?:\s/, "").split(/(?<!\\)\s+/)
  return inputs
    .filter((path) => path !== "")
    .map((path) => path.replace(/\\ /g, " "))
    .some((path) => !existsSync(path) || statSync(path).mtimeMs > made)
}

const signatureOf = (args) => createHash("sha256").update(version).update(args.join("\0")).digest("hex")

const cxx = { command: compiler, flags: common, folder: "obj" }

/** Compiles what is out of date and returns the object files; stops with the compiler's words when one fails. */
const compile = async (files, flags, by = cxx) => {
  const objects = files.map((file) => join(build, by.folder, `${relative(native, file).replaceAll(/[\\/]/g, "__")}.o`))
  mkdirSync(join(build, by.folder), { recursive: true })
  const failures = []
  await inParallel(
    files.map((file, i) => async () => {
      const object = objects[i]
      const args = [...by.flags, ...flags(file)]
      const signature = signatureOf(args)
      if (!stale(object, signature) || failures.length > 0) return
      const temporary = `${object}.${process.pid}.tmp`
      const started = new Date()
      const { ok, output } = await run(by.command, [...args, "-MMD", "-MF", `${object}.d`, "-c", file, "-o", temporary])
      if (output !== "") process.stderr.write(output)
      if (!ok) {
        failures.push(relative(root, file))
        return
      }
      // As old as what was read: a source that changes while it is compiled is newer than its object.
      utimesSync(temporary, started, started)
      renameSync(temporary, object)
      writeFileSync(`${object}.cmd`, signature)
    })
  )
  if (failures.length > 0) fail(`${failures.join(", ")} did not compile`)
  return objects
}

const link = async (target, objects, flags, by = cxx) => {
  const args = [...objects, ...flags]
  const signature = signatureOf(args)
  const made = existsSync(target) ? statSync(target).mtimeMs : 0
  const stamp = `${target}.cmd`
  const same = existsSync(stamp) && readFileSync(stamp, "utf8") === signature
  if (same && objects.every((object) => statSync(object).ctimeMs <= made)) return
  const temporary = `${target}.${process.pid}.tmp`
  const { ok, output } = await run(by.command, [...args, "-o", temporary])
  if (output !== "") process.stderr.write(output)
  if (!ok) fail(`${relative(root, target)} did not link`)
  renameSync(temporary, target)
  writeFileSync(stamp, signature)
}

const darwin = process.platform === "darwin"
const all = sources(join(native, "src"))
const isBinding = (file) => relative(native, file).split(/[\\/]/).includes("binding")
const core = () =>
  compile(
    all.filter((file) => !isBinding(file)),
    () => []
  )

const cudaSources = sources(join(native, "src", "cuda"), ".cu")
const isCudaTest = (file) => basename(file).startsWith("cuda_")
const isProgram = (file) => !isCudaTest(file) || file.endsWith("_test.cc")

/** Runs on small shapes, so it shall compile fast. */
const emulationFlags = ["-O1", `-I${join(native, "test")}`]

/** Everything of the device but its real runtime, for the host. */
const emulation = () =>
  compile(
    [
      ...cudaSources.filter((file) => basename(file) !== "runtime.cu"),
      ...sources(join(native, "test")).filter((file) => !isProgram(file))
    ],
    () => ["-x", "c++", ...emulationFlags]
  )

const nvcc = () => {
  const command = process.env.NVCC || "nvcc"
  try {
    return { command, version: execFileSync(command, ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }) }
  } catch {
    return undefined
  }
}

/** Ampere and Hopper as machine code, and what the driver compiles for later devices. */
const targets = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"]

/** With nvcc as the compiler; its version is among the arguments so that another one compiles again. */
const byNvcc = ({ command, version }) => ({
  command,
  folder: join("obj", "cuda"),
  flags: [
    "-std=c++17",
    "-O3",
    `-I${join(native, "include")}`,
    `-I${join(native, "src")}`,
    ...targets,
    "-Xcompiler",
    "-fPIC,-pthread,-Wall",
    `-DPRIMERL_NVCC="${createHash("sha256").update(version).digest("hex").slice(0, 12)}"`
  ]
})

/** The CUDA library with the emulated device, for tests of what stands on it. */
const emulatedLibrary = async () => {
  const [host, device] = [await core(), await emulation()]
  await link(join(build, "primerl_cuda_emulated.so"), [...device, ...host], ["-shared", "-pthread", "-ldl", "-Wl,-Bsymbolic"])
}

const cudaLibrary = async (by) => {
  const [host, device] = [await core(), await compile(cudaSources, () => [], by)]
  await link(join(build, "primerl_cuda.so"), [...device, ...host], ["-shared", "-cudart", "static", "-Xlinker", "-Bsymbolic"], by)
}

const addon = async () => {
  const objects = await compile(all, (file) => (isBinding(file) ? bindingFlags() : []))
  await link(
    join(build, "primerl.node"),
    objects,
    darwin
      ? ["-shared", "-undefined", "dynamic_lookup", "-pthread"]
      : ["-shared", "-pthread", "-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL"]
  )
}

/** One program for each source in native/`directory` whose name holds one of `only`, of itself and the core. */
const programs = async (directory, only) => {
  const host = await core()
  const files = sources(join(native, directory))
    .filter(isProgram)
    .filter((file) => only.length === 0 || only.some((name) => basename(file).includes(name)))
  if (files.length === 0) fail(`nothing in native/${directory} matches ${only.join(", ")}`)
  const objects = await compile(files, (file) => (isCudaTest(file) ? emulationFlags : []))
  const device = files.some(isCudaTest) ? await emulation() : []
  mkdirSync(join(build, directory), { recursive: true })
  const made = []
  for (const [i, file] of files.entries()) {
    const program = join(build, directory, basename(file, ".cc"))
    await link(program, [objects[i], ...(isCudaTest(file) ? device : []), ...host], ["-pthread", "-ldl", ...sanitizers])
    made.push({ file, program })
  }
  return made
}

const cuda = async () => {
  await cudaLibrary(byNvcc(requireNvcc()))
}

const requireNvcc = () =>
  nvcc() ?? fail('no CUDA compiler: "nvcc" does not run; install the CUDA toolkit, or set NVCC')

/** The tests of kernels and models for a real device: the same sources, without what tests the emulation itself. */
const cudaPrograms = async () => {
  const by = byNvcc(requireNvcc())
  const files = sources(join(native, "test"), "_test.cc").filter(
    (file) => isCudaTest(file) && basename(file) !== "cuda_emulation_test.cc"
  )
  const [host, device] = [await core(), await compile(cudaSources, () => [], by)]
  const objects = await compile(files, () => ["-x", "cu", `-I${join(native, "test")}`], by)
  const made = []
  for (const [i, file] of files.entries()) {
    const program = join(build, "cuda", basename(file, ".cc"))
    mkdirSync(dirname(program), { recursive: true })
    await link(program, [objects[i], ...device, ...host], ["-cudart", "static", "-Xcompiler", "-pthread", "-ldl"], by)
    made.push({ file, program })
  }
  return made
}

/** Runs one test after another, and ends with an error when one has failed. */
const runAll = async (made) => {
  const failed = []
  for (const { file, program } of made) {
    const { ok, output } = await run(program, [join(native, "test")])
    process.stdout.write(output)
    process.stdout.write(`${ok ? "ok  " : "FAIL"} ${relative(root, file)}\n`)
    if (!ok) failed.push(relative(root, file))
  }
  if (failed.length > 0) fail(`${failed.length} of ${made.length} tests failed: ${failed.join(", ")}`)
}

/**
 * Valgrind's processor has neither AVX-512 nor AMX, so tests of every instruction set run scalar and avx2 there. Tests named
 * cuda_* run on stacks that are switched by hand, which memcheck is not told of: they are left to the sanitizers.
 */
const memcheck = ["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite,possible", "--fair-sched=try"]

const underValgrind = async () => {
  try {
    execFileSync("valgrind", ["--version"], { stdio: "ignore" })
  } catch {
    fail('"valgrind" does not run; install it, e.g. apt install valgrind')
  }
  const made = (await programs("test", process.argv.slice(3))).filter(({ file }) => !isCudaTest(file))
  process.stdout.write("skip AVX-512, AMX and cuda_*: not for valgrind\n")
  const failed = []
  for (const { file, program } of made) {
    const { ok, output } = await run("valgrind", [...memcheck, program, join(native, "test")])
    process.stdout.write(`${output}${ok ? "ok  " : "FAIL"} ${relative(root, file)}\n`)
    if (!ok) failed.push(relative(root, file))
  }
  if (failed.length > 0) fail(`${failed.length} of ${made.length} tests failed under valgrind: ${failed.join(", ")}`)
}

const test = async () => {
  const only = process.argv.slice(3)
  const made = await programs("test", only)
  if (only.length === 0 && !sanitizes) {
    const found = nvcc()
    if (found !== undefined) await cudaLibrary(byNvcc(found))
    process.stdout.write(`${found === undefined ? "skip" : "ok  "} CUDA library by nvcc${found === undefined ? ": nvcc was not found" : ""}\n`)
  }
  await runAll(made)
}

if (process.argv[2] === "test" || sanitizes) await test()
else if (process.argv[2] === "valgrind") await underValgrind()
else if (process.argv[2] === "bench") await programs("bench", process.argv.slice(3))
else if (process.argv[2] === "cuda") await cuda()
else if (process.argv[2] === "emulated-cuda") await emulatedLibrary()
else if (process.argv[2] === "cuda-test") await runAll(await cudaPrograms())
else if (process.argv[2] === undefined) {
  await addon()
  const found = existsSync("/dev/nvidiactl") ? nvcc() : undefined
  if (found !== undefined) await cudaLibrary(byNvcc(found))
} else fail(`unknown argument "${process.argv[2]}"; there are "test", "sanitize", "valgrind", "bench", "cuda", "cuda-test" and "emulated-cuda"`)
