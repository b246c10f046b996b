// grapeshot/io/data/images.cpp: images as data sets: single files, folders, folders of classes.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <limits>
#include <system_error>

#include "grapeshot/base/error.h"
#include "grapeshot/io/data/formats_internal.h"
#include "grapeshot/io/data/image.h"
#include "grapeshot/io/file.h"

namespace grapeshot::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabelFile = "labels.csv";

std::string size_of(const Image& image) {
  constexpr std::array<std::string_view, 5> kKinds = {"", "grey", "grey with alpha", "RGB",
                                                      "RGB with alpha"};
  return str(image.height, " x ", image.width, " pixels, ",
             kKinds.at(static_cast<size_t>(image.channels)));
}

// Appends an image to a set of images of one size.
void add(DataSet& set, const Image& image, const std::string& path, const std::string& first) {
  const std::vector<int64_t> shape = {image.height, image.width, image.channels};
  if (set.shape.empty()) {
    set.layout = Layout::kNhwc;
    set.shape = {0, image.height, image.width, image.channels};
  }
  GRAPESHOT_CHECK(std::equal(shape.begin(), shape.end(), set.shape.begin() + 1), kInvalidArgument,
                  path, ": is ", size_of(image), ", unlike ", first,
                  "; images are neither resized nor converted");
  ++set.shape[0];
  for (const char byte : image.pixels) {
    set.values.push_back(static_cast<double>(static_cast<unsigned char>(byte)));
  }
}

bool is_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

// Names of what is in a folder, sorted: its images, or its folders.
std::vector<std::string> entries(const fs::path& folder, bool folders) {
  std::vector<std::string> out;
  std::error_code failure;
  for (const fs::directory_entry& each : fs::directory_iterator(folder, failure)) {
    std::error_code ignored;
    const std::string name = each.path().filename().string();
    const bool wanted = folders ? each.is_directory(ignored) && !name.starts_with('.')
                                : !each.is_directory(ignored) && is_image_name(each.path());
    if (wanted) out.push_back(name);
  }
  GRAPESHOT_CHECK(!failure, kSystem, folder.string(), ": cannot be listed (", failure.message(),
                  ")");
  std::ranges::sort(out);
  return out;
}

}  // namespace

bool is_image(std::string_view, std::string_view head, int64_t) {
  return is_png(head) || is_jpeg(head);
}

DataSet read_image(ByteSource& source, const std::string& path, const Request& request) {
  const Image image = decode_image(source.read(std::numeric_limits<uint64_t>::max()), path);
  DataSet out;
  add(out, image, path, path);
  if (request.begin > 0 || request.end < 1) {
    out.shape[0] = 0;
    out.values.clear();
    return out;
  }
  out.names = {fs::path(path).filename().string()};
  return out;
}

ImageFolder list_images(const std::string& folder, const Request& request) {
  ImageFolder out;
  for (const std::string& name : entries(folder, false)) out.files.push_back({name});
  if (out.files.empty()) {
    const std::vector<std::string> classes = entries(folder, true);
    for (int64_t label = 0; label < std::ssize(classes); ++label) {
      const std::string& name = classes[static_cast<size_t>(label)];
      for (const std::string& image : entries(fs::path(folder) / name, false)) {
        out.files.push_back({(fs::path(name) / image).string(), label});
      }
    }
  }
  GRAPESHOT_CHECK(!out.files.empty(), kInvalidArgument, folder,
                  ": holds no .png, .jpg or .jpeg file, nor a folder with one");
  const int64_t n = std::ssize(out.files);
  out.first = std::clamp<int64_t>(request.begin, 0, n);
  const int64_t end = std::clamp(request.end, out.first, n);
  out.files.erase(out.files.begin() + end, out.files.end());
  out.files.erase(out.files.begin(), out.files.begin() + out.first);
  return out;
}

DataSet read_folder(const std::string& folder, const Request& request) {
  DataSet out;
  const ImageFolder images = list_images(folder, request);
  bool classes = false;
  for (const ImageFile& file : images.files) {
    const std::string path = (fs::path(folder) / file.name).string();
    const Image image = decode_image(read_file(path), path);
    if (out.names.empty()) {
      check_numbers(folder, images.files.size(), image.pixels.size());
      out.values.reserve(images.files.size() * image.pixels.size());
    }
    add(out, image, path, images.files.front().name);
    out.names.push_back(file.name);
    classes = file.label >= 0;
    if (classes) out.labels.push_back(file.label);
  }
  std::error_code ignored;
  const std::string labels = (fs::path(folder) / kLabelFile).string();
  if (!classes && !out.names.empty() && fs::exists(labels, ignored)) {
    out.labels = read_labels(labels, out, request);
  }
  out.first = images.first;
  return out;
}

}  // namespace grapeshot::data
