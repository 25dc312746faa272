// SPDX-License-Identifier: Apache-2.0
// The return codes of NVML: number, name after NVML_ERROR_, text of nvmlErrorString. And the calls
// that the simulated library has.
#pragma once

#define NVML_CODES(X)                                                                              \
    X(1, UNINITIALIZED, "Uninitialized")                                                           \
    X(2, INVALID_ARGUMENT, "Invalid Argument")                                                     \
    X(3, NOT_SUPPORTED, "Not Supported")                                                           \
    X(4, NO_PERMISSION, "Insufficient Permissions")                                                \
    X(5, ALREADY_INITIALIZED, "Already Initialized")                                               \
    X(6, NOT_FOUND, "Not Found")                                                                   \
    X(7, INSUFFICIENT_SIZE, "Insufficient Size")                                                   \
    X(8, INSUFFICIENT_POWER, "Insufficient External Power")                                        \
    X(9, DRIVER_NOT_LOADED, "Driver Not Loaded")                                                   \
    X(10, TIMEOUT, "Timeout")                                                                      \
    X(11, IRQ_ISSUE, "Interrupt Request Issue")                                                    \
    X(12, LIBRARY_NOT_FOUND, "NVML Shared Library Not Found")                                      \
    X(13, FUNCTION_NOT_FOUND, "Function Not Found")                                                \
    X(14, CORRUPTED_INFOROM, "Corrupted infoROM")                                                  \
    X(15, GPU_IS_LOST, "GPU is lost")                                                              \
    X(16, RESET_REQUIRED, "GPU requires reset")                                                    \
    X(17, OPERATING_SYSTEM, "The operating system has blocked the request.")                       \
    X(18, LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch")                              \
    X(19, IN_USE, "In use by another client")                                                      \
    X(20, MEMORY, "Insufficient Memory")                                                           \
    X(21, NO_DATA, "No data")                                                                      \
    X(22, VGPU_ECC_NOT_SUPPORTED, "The requested vgpu operation is not available, ECC is on")      \
    X(23, INSUFFICIENT_RESOURCES, "Insufficient resources")                                        \
    X(24, FREQ_NOT_SUPPORTED, "Frequency not supported")                                           \
    X(25, ARGUMENT_VERSION_MISMATCH, "The provided version is invalid/unsupported")                \
    X(26, DEPRECATED, "The requested functionality has been deprecated")                           \
    X(27, NOT_READY, "The system is not ready for the request")                                    \
    X(28, GPU_NOT_FOUND, "No GPUs were found")                                                     \
    X(29, INVALID_STATE, "Resource not in correct state to perform requested operation")           \
    X(30, RESET_TYPE_NOT_SUPPORTED, "Reset type not supported")                                    \
    X(999, UNKNOWN, "Unknown Error")

enum nvml_code {
    NVML_SUCCESS = 0,
#define NVML_CODE_ENUM(number, name, text) NVML_ERROR_##name = number,
    NVML_CODES(NVML_CODE_ENUM)
#undef NVML_CODE_ENUM
};
