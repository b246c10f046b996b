#include "grapeshot/report/layout.h"

#include <doctest/doctest.h>

using namespace grapeshot::report;

TEST_CASE("image_layout: images of one or three channels, first or last") {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 3, 8, 9}, {1, 8, 9, 3}, {3, 8, 9}, {8, 9, 3}, {1, 1, 8, 9}}) {
    const auto layout = image_layout(shape);
    REQUIRE(layout);
    CHECK(layout->height == 8);
    CHECK(layout->width == 9);
  }
  CHECK(image_layout({1, 8, 9, 3})->channels_last);
  CHECK(image_layout({1, 8, 9, 3})->at(1, 2, 1) == 34);
  CHECK(image_layout({1, 3, 8, 9})->at(1, 2, 1) == 83);
}

TEST_CASE("image_layout: flat images from 16 x 16 on, smaller ones are tables") {
  CHECK(image_layout({1, 784})->width == 28);
  CHECK(image_layout({3072})->channels == 3);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 64},
                                            {1, 5},
                                            {2, 784},
                                            {1, 785},
                                            {},
                                            {1, 20, 16},
                                            {1, 8, 3},
                                            {1, 1, 256},
                                            {2, 3, 8, 8},
                                            {1, 2, 8, 8},
                                            {1, 3, 1, 8}}) {
    CHECK_FALSE(image_layout(shape));
  }
}

TEST_CASE("drawn_shapes: flat inputs look like those of another model, or as told") {
  Run run;
  run.findings.resize(2);
  run.findings[0].shape = {1, 64};
  run.findings[1].shape = {1, 1, 8, 8};
  CHECK(drawn_shapes(run)[0] == run.findings[1].shape);
  run.input_shape = {4, 16};
  CHECK(drawn_shapes(run)[0] == std::vector<int64_t>{1, 1, 4, 16});
  run.input_shape = {5};
  CHECK(drawn_shapes(run)[0] == run.findings[1].shape);
}
