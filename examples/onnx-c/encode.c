/* Encode rows with onnxruntime's C API, and compare the codes.

   cc encode.c -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o encode
   ./encode encoder.onnx rows.f32 codes.bin 64
*/
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>

static const OrtApi *ort;

static void check(OrtStatus *status) {
    if (status == NULL) return;
    fprintf(stderr, "error: %s\n", ort->GetErrorMessage(status));
    exit(1);
}

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) { perror(path); exit(1); }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *content = malloc(*size ? *size : 1);
    if (fread(content, 1, *size, file) != *size) { perror(path); exit(1); }
    fclose(file);
    return content;
}

int main(int argc, char **argv) {
    if (argc != 5) { fprintf(stderr, "usage: encode encoder.onnx rows.f32 codes.bin WIDTH\n"); return 2; }
    ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    size_t rows_size, codes_size;
    float *rows = read_file(argv[2], &rows_size);
    unsigned char *expected = read_file(argv[3], &codes_size);
    int64_t width = atoll(argv[4]), shape[2] = {(int64_t)(rows_size / sizeof(float)) / width, width};

    OrtEnv *env;
    OrtSessionOptions *options;
    OrtSession *session;
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "encode", &env));
    check(ort->CreateSessionOptions(&options));
    check(ort->SetIntraOpNumThreads(options, 1));
    check(ort->CreateSession(env, argv[1], options, &session));

    OrtMemoryInfo *memory;
    OrtValue *input, *output = NULL;
    check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
    check(ort->CreateTensorWithDataAsOrtValue(memory, rows, rows_size, shape, 2,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
    const char *in[] = {"rows"}, *out[] = {"codes"};
    check(ort->Run(session, NULL, in, (const OrtValue *const *)&input, 1, out, 1, &output));

    unsigned char *codes;
    check(ort->GetTensorMutableData(output, (void **)&codes));
    size_t differ = 0;
    for (size_t i = 0; i < codes_size; i++) differ += codes[i] != expected[i];
    printf("%lld codes, %zu of %zu bytes differ\n", (long long)shape[0], differ, codes_size);

    ort->ReleaseValue(output);
    ort->ReleaseValue(input);
    ort->ReleaseMemoryInfo(memory);
    ort->ReleaseSession(session);
    ort->ReleaseSessionOptions(options);
    ort->ReleaseEnv(env);
    free(rows);
    free(expected);
    return differ != 0;
}
