# Build against the ROS 2 wheels from the Python package index:
#   cmake -DCMAKE_PROJECT_INCLUDE=tools/ros_wheels.cmake ...
# An ordinary ROS 2 installation never reads this file.

# The prefix of the Python that holds the wheels stands in for /opt/ros/<distro>.
if(NOT Python3_EXECUTABLE)
  find_program(Python3_EXECUTABLE NAMES python python3 REQUIRED)
endif()
execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import sys; print(sys.prefix, end='')"
  OUTPUT_VARIABLE _prefix COMMAND_ERROR_IS_FATAL ANY)
list(PREPEND CMAKE_PREFIX_PATH "${_prefix}")
set(ENV{AMENT_PREFIX_PATH} "${_prefix}")

# Python modules are linked against include folders that must not be exported:
# - the wheels' *__rosidl_generator_py targets name folders of the machine that built them, which CMake refuses
#   as non-existent;
# - our own names numpy's folder, which CMake refuses when the virtual environment lies inside the source tree.
function(_ros_wheels_drop_unusable_includes)
  get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  get_property(own DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS imported own)
    if(target MATCHES "__rosidl_generator_py$")
      get_target_property(dirs ${target} INTERFACE_INCLUDE_DIRECTORIES)
      set(kept "")
      foreach(dir IN LISTS dirs)
        string(FIND "${dir}" "${_prefix}/" inside_prefix)
        if(NOT IS_ABSOLUTE "${dir}" OR (EXISTS "${dir}" AND NOT inside_prefix EQUAL 0))
          list(APPEND kept "${dir}")
        endif()
      endforeach()
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${kept}")
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL _ros_wheels_drop_unusable_includes)

# rclpy uses the messages through C: what is for programs in C++, which a virtual environment has none of, would take two
# fifths of the build.
option(GENERATE_CPP "Generate the messages for C++, too" OFF)
if(NOT GENERATE_CPP)
  find_package(rosidl_default_generators REQUIRED)
  list(FILTER AMENT_EXTENSIONS_rosidl_generate_idl_interfaces EXCLUDE REGEX "_cpp:")
endif()

# The generated C++ files are small and include much: several at a time they compile in a third of the time.
# Those in C have names in common.
function(_ros_wheels_compile_together)
  get_property(own DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS own)
    if(target MATCHES "__rosidl_typesupport_(cpp|fastrtps_c|fastrtps_cpp|introspection_cpp)$")
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL _ros_wheels_compile_together)
