// An error always carries a stable code for programs and a message for people: what happened, where, what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace primerl {

/** Codes used by the core: ERR_CANCELLED, ERR_CONFIG, ERR_TENSOR, ERR_BATCH, ERR_STATE. */
struct Error : std::runtime_error {
  std::string code;

  Error(std::string errorCode, const std::string& message)
      : std::runtime_error(message), code(std::move(errorCode)) {}
};

}  // namespace primerl
