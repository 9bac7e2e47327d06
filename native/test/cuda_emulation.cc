#include "cuda_emulation.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <random>
#include <utility>
#include <vector>

#if defined(__x86_64__) && defined(__linux__)
#define PRIMERL_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

#if defined(PRIMERL_OWN_SWITCH)
// Saves what a function must keep (System V ABI) and the stack pointer, then continues where `to` was saved.
extern "C" void primerlSwitchFiber(void** save, void* to);
asm(R"(
.text
.p2align 4
.globl primerlSwitchFiber
.type primerlSwitchFiber, @function
primerlSwitchFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size primerlSwitchFiber, .-primerlSwitchFiber
)");
#endif

namespace emulation {
namespace {

constexpr unsigned warpSize = 32;
constexpr size_t stackBytes = size_t(1) << 17;

enum class State { ready, barrier, exchange, ended };

struct Fiber {
  State state = State::ended;
  dim3 index;
  Place place{"", 0};
  Exchange kind = Exchange::sync;
  unsigned mask = 0;
  int argument = 0;
  uint64_t value = 0;
  char* stack = nullptr;
#if defined(PRIMERL_OWN_SWITCH)
  void* pointer = nullptr;
#else
  ucontext_t context;
#endif
  void* fakeStack = nullptr;
};

struct Machine {
  Schedule schedule = Schedule::forward;
  std::mt19937 random{1};
  std::vector<Fiber> fibers;
  std::vector<unsigned> order;
  unsigned threads = 0;
  unsigned current = 0;
  const std::function<void()>* body = nullptr;
  std::exception_ptr failure;
  std::vector<unsigned char> shared;
#if defined(PRIMERL_OWN_SWITCH)
  void* pointer = nullptr;
#else
  ucontext_t context;
#endif
  const void* hostStack = nullptr;
  size_t hostStackBytes = 0;
};

Machine machine;

std::string text(dim3 at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

std::string text(Place place) {
  const char* slash = std::strrchr(place.file, '/');
  return std::string(slash == nullptr ? place.file : slash + 1) + ":" + std::to_string(place.line);
}

std::string where(const Fiber& fiber) {
  const std::string who = "thread " + text(fiber.index);
  switch (fiber.state) {
    case State::ready: return who + " runs";
    case State::barrier: return who + " waits at the barrier in " + text(fiber.place);
    case State::exchange: return who + " waits for lanes of its warp in " + text(fiber.place);
    default: return who + " has ended";
  }
}

[[noreturn]] void fail(const std::string& what) { throw Error("block " + text(blockIdx) + ": " + what); }

// The sanitizer must know on which stack the program is.
void beforeSwitch([[maybe_unused]] void** keep, [[maybe_unused]] const void* bottom, [[maybe_unused]] size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(keep, bottom, size);
#endif
}

void afterSwitch([[maybe_unused]] void* kept, [[maybe_unused]] const void** bottom, [[maybe_unused]] size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, bottom, size);
#endif
}

void toHost(Fiber& from, bool last) {
  beforeSwitch(last ? nullptr : &from.fakeStack, machine.hostStack, machine.hostStackBytes);
#if defined(PRIMERL_OWN_SWITCH)
  primerlSwitchFiber(&from.pointer, machine.pointer);
#else
  swapcontext(&from.context, &machine.context);
#endif
  afterSwitch(from.fakeStack, &machine.hostStack, &machine.hostStackBytes);
}

void enter() {
  afterSwitch(nullptr, &machine.hostStack, &machine.hostStackBytes);
  try {
    (*machine.body)();
  } catch (...) {
    machine.failure = std::current_exception();
  }
  Fiber& self = machine.fibers[machine.current];
  self.state = State::ended;
  toHost(self, true);
  std::abort();  // an ended fiber is never run again
}

void start(Fiber& fiber) {
  if (fiber.stack == nullptr) {
    void* memory = mmap(nullptr, stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for a stack");
    fiber.stack = static_cast<char*>(memory);
    // a stack that overflows ends the program instead of writing into its neighbour
    mprotect(fiber.stack, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE);
  }
  fiber.state = State::ready;
  fiber.fakeStack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  // of frames that were left without a return
  __asan_unpoison_memory_region(fiber.stack, stackBytes);
#endif
#if defined(PRIMERL_OWN_SWITCH)
  void** top = reinterpret_cast<void**>(fiber.stack + stackBytes);
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(enter);
  for (int i = 3; i <= 8; i++) top[-i] = nullptr;
  fiber.pointer = top - 8;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = stackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enter, 0);
#endif
}

void resume(unsigned index) {
  Fiber& fiber = machine.fibers[index];
  machine.current = index;
  threadIdx = fiber.index;
  void* fakeStack = nullptr;
  beforeSwitch(&fakeStack, fiber.stack, stackBytes);
#if defined(PRIMERL_OWN_SWITCH)
  primerlSwitchFiber(&machine.pointer, fiber.pointer);
#else
  swapcontext(&machine.context, &fiber.context);
#endif
  afterSwitch(fakeStack, nullptr, nullptr);
  if (machine.failure) std::rethrow_exception(std::exchange(machine.failure, nullptr));
}

void arrange(std::vector<unsigned>& order, unsigned count) {
  order.resize(count);
  unsigned next = 0;
  switch (machine.schedule) {
    case Schedule::reverse:
      for (unsigned i = 0; i < count; i++) order[i] = count - 1 - i;
      break;
    case Schedule::strided:
      for (unsigned first = 0; first < 7; first++) {
        for (unsigned i = first; i < count; i += 7) order[next++] = i;
      }
      break;
    default:
      for (unsigned i = 0; i < count; i++) order[i] = i;
  }
  if (machine.schedule == Schedule::shuffled) std::shuffle(order.begin(), order.end(), machine.random);
}

unsigned sourceLane(const Fiber& fiber, unsigned lane) {
  const int argument = fiber.argument;
  switch (fiber.kind) {
    case Exchange::index: return unsigned(argument) % warpSize;
    case Exchange::xored: return lane ^ unsigned(argument);
    case Exchange::down: return lane + unsigned(argument) < warpSize ? lane + unsigned(argument) : lane;
    case Exchange::up: return int(lane) >= argument ? lane - unsigned(argument) : lane;
    default: return lane;
  }
}

/** Completes exchanges of the warp whose lanes have all come; true when one was. */
bool completeExchanges(unsigned first) {
  bool any = false;
  const unsigned lanes = std::min(warpSize, machine.threads - first);
  Fiber* warp = machine.fibers.data() + first;
  for (unsigned lane = 0; lane < lanes; lane++) {
    const Fiber& asking = warp[lane];
    if (asking.state != State::exchange) continue;
    bool complete = true;
    for (unsigned other = 0; other < warpSize; other++) {
      if ((asking.mask >> other & 1u) == 0) continue;
      if (other >= lanes) fail(where(asking) + ": its mask names lane " + std::to_string(other) + ", which the block lacks");
      const Fiber& partner = warp[other];
      if (partner.state == State::ended) fail(where(asking) + ": lane " + std::to_string(other) + " of its mask has ended");
      if (partner.state != State::exchange) {
        complete = false;
        continue;
      }
      if (partner.mask != asking.mask || partner.kind != asking.kind || partner.place.line != asking.place.line ||
          std::strcmp(partner.place.file, asking.place.file) != 0) {
        fail("lanes disagree on a shuffle or its mask: " + where(asking) + ", " + where(partner));
      }
    }
    if (!complete) continue;
    const unsigned mask = asking.mask;
    uint64_t values[warpSize];
    for (unsigned other = 0; other < lanes; other++) {
      if ((mask >> other & 1u) == 0) continue;
      const unsigned source = sourceLane(warp[other], other);
      if (source >= lanes || (mask >> source & 1u) == 0) {
        fail(where(warp[other]) + ": it reads lane " + std::to_string(source) + ", which is not in its mask");
      }
      values[other] = warp[source].value;
    }
    for (unsigned other = 0; other < lanes; other++) {
      if ((mask >> other & 1u) == 0) continue;
      warp[other].value = values[other];
      warp[other].state = State::ready;
    }
    any = true;
  }
  return any;
}

/** All threads are at one barrier, or the kernel is wrong. */
void completeBarrier() {
  const Fiber* first = nullptr;
  for (unsigned t = 0; t < machine.threads; t++) {
    const Fiber& fiber = machine.fibers[t];
    if (fiber.state == State::exchange) fail("no thread can go on: " + where(fiber) + ", whose partners wait elsewhere");
    if (fiber.state == State::barrier && first == nullptr) first = &fiber;
  }
  for (unsigned t = 0; t < machine.threads; t++) {
    Fiber& fiber = machine.fibers[t];
    if (fiber.state != State::barrier || fiber.place.line != first->place.line ||
        std::strcmp(fiber.place.file, first->place.file) != 0) {
      fail("a barrier is not reached by all threads: " + where(*first) + ", " + where(fiber));
    }
  }
  for (unsigned t = 0; t < machine.threads; t++) machine.fibers[t].state = State::ready;
}

void runBlock() {
  for (unsigned t = 0; t < machine.threads; t++) {
    Fiber& fiber = machine.fibers[t];
    fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
    start(fiber);
  }
  std::fill(machine.shared.begin(), machine.shared.end(), static_cast<unsigned char>(0xff));
  for (;;) {
    arrange(machine.order, machine.threads);
    bool ran = false, left = false;
    for (const unsigned t : machine.order) {
      if (machine.fibers[t].state != State::ready) continue;
      resume(t);
      ran = true;
    }
    for (unsigned first = 0; first < machine.threads; first += warpSize) {
      if (completeExchanges(first)) ran = true;
    }
    for (unsigned t = 0; t < machine.threads && !left; t++) left = machine.fibers[t].state != State::ended;
    if (!left) return;
    if (!ran) completeBarrier();
  }
}

}  // namespace

const char* name(Schedule schedule) {
  switch (schedule) {
    case Schedule::forward: return "forward";
    case Schedule::reverse: return "reverse";
    case Schedule::strided: return "strided";
    default: return "shuffled";
  }
}

void use(Schedule schedule, unsigned seed) {
  machine.schedule = schedule;
  machine.random.seed(seed);
}

void* dynamicShared() { return machine.shared.data(); }

void run(dim3 grid, dim3 block, size_t sharedBytes, const std::function<void()>& body) {
  machine.threads = block.x * block.y * block.z;
  if (machine.threads == 0 || machine.threads > 1024) {
    throw Error("a block has " + std::to_string(machine.threads) + " threads; 1 to 1024 are possible");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
    throw Error("a grid of " + text(grid) + " blocks is not possible");
  }
  if (machine.fibers.size() < machine.threads) machine.fibers.resize(machine.threads);
  // exactly as long as asked for, so that the address sanitizer sees what lies beyond it
  std::vector<unsigned char>(sharedBytes).swap(machine.shared);
  machine.body = &body;
  blockDim = block;
  gridDim = grid;
  std::vector<unsigned> blocks;
  arrange(blocks, grid.x * grid.y * grid.z);
  for (const unsigned b : blocks) {
    blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    runBlock();
  }
}

void barrier(Place place) {
  Fiber& self = machine.fibers[machine.current];
  self.state = State::barrier;
  self.place = place;
  toHost(self, false);
}

uint64_t exchange(Exchange kind, unsigned mask, uint64_t value, int argument, Place place) {
  Fiber& self = machine.fibers[machine.current];
  const unsigned lane = machine.current % warpSize;
  self.place = place;
  if ((mask >> lane & 1u) == 0) fail("thread " + text(self.index) + " in " + text(place) + " is not in its own mask");
  self.state = State::exchange;
  self.kind = kind;
  self.mask = mask;
  self.value = value;
  self.argument = argument;
  toHost(self, false);
  return self.value;
}

}  // namespace emulation
