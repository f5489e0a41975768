// SDKs and frameworks on the JVM, used as their documentation shows: only address, key and model are ours.
//
//     java -cp 'LIBRARIES/*' Frameworks.java PROGRAM http://host:port
//
// Prints the abilities that worked, one in a line. `sim/echo` answers with the question, `sim/scripted` calls the first tool and
// repeats its result.

import com.anthropic.client.okhttp.AnthropicOkHttpClient;
import com.anthropic.models.messages.MessageCreateParams;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.models.audio.speech.SpeechCreateParams;
import com.openai.models.audio.transcriptions.TranscriptionCreateParams;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.responses.ResponseCreateParams;
import dev.langchain4j.agent.tool.P;
import dev.langchain4j.agent.tool.Tool;
import dev.langchain4j.model.anthropic.AnthropicChatModel;
import dev.langchain4j.model.anthropic.AnthropicStreamingChatModel;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import dev.langchain4j.service.AiServices;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.springframework.ai.chat.prompt.Prompt;
import org.springframework.ai.openai.OpenAiAudioSpeechModel;
import org.springframework.ai.openai.OpenAiAudioSpeechOptions;
import org.springframework.ai.openai.OpenAiAudioTranscriptionModel;
import org.springframework.ai.openai.OpenAiAudioTranscriptionOptions;
import org.springframework.ai.openai.OpenAiChatOptions;
import org.springframework.core.io.FileSystemResource;

public class Frameworks {
    static final String TEXT = "tell me something short";
    static final String WEATHER = "18 degrees";
    static final String SAID = "good morning";
    static final String ECHO = "sim/echo", SCRIPTED = "sim/scripted", TONE = "sim/tone";
    static final String KEY = "any";

    interface Program {
        void run(String root) throws Exception;
    }

    static final Map<String, Program> PROGRAMS = Map.of(
        "openai_sdk", Frameworks::openaiSdk,
        "anthropic_sdk", Frameworks::anthropicSdk,
        "langchain4j_openai", root -> langchain4j(
            model -> OpenAiChatModel.builder().baseUrl(root + "/v1").apiKey(KEY).modelName(model).build(),
            OpenAiStreamingChatModel.builder().baseUrl(root + "/v1").apiKey(KEY).modelName(ECHO).build()),
        "langchain4j_anthropic", root -> langchain4j(
            model -> AnthropicChatModel.builder().baseUrl(root + "/v1").apiKey(KEY).modelName(model).build(),
            AnthropicStreamingChatModel.builder().baseUrl(root + "/v1").apiKey(KEY).modelName(ECHO).build()),
        "spring_ai", Frameworks::springAi);

    static void same(Object expected, Object seen) {
        if (!expected.equals(seen)) throw new AssertionError("expected " + expected + ", got " + seen);
    }

    static void works(String ability) {
        System.out.println(ability);
    }

    static Path recording(OpenAIClient client) throws Exception {
        var wanted = SpeechCreateParams.builder().model(TONE).voice("alloy").input(SAID)
            .responseFormat(SpeechCreateParams.ResponseFormat.WAV).build();
        var file = Files.createTempFile("speech", ".wav");
        try (var response = client.audio().speech().create(wanted)) {
            Files.write(file, response.body().readAllBytes());
        }
        return file;
    }

    static void openaiSdk(String root) throws Exception {
        var client = OpenAIOkHttpClient.builder().baseUrl(root + "/v1").apiKey(KEY).build();
        var chat = ChatCompletionCreateParams.builder().model(ECHO).addUserMessage(TEXT).build();
        var answer = client.chat().completions().create(chat);
        same(TEXT, answer.choices().get(0).message().content().orElseThrow());
        works("chat");
        try (var pieces = client.chat().completions().createStreaming(chat)) {
            same(TEXT, pieces.stream().flatMap(piece -> piece.choices().stream())
                .flatMap(choice -> choice.delta().content().stream()).collect(Collectors.joining()));
        }
        works("streaming");
        var response = client.responses().create(ResponseCreateParams.builder().model(ECHO).input(TEXT).build());
        same(TEXT, response.output().get(0).asMessage().content().get(0).asOutputText().text());
        works("responses");
        var file = recording(client);
        works("speech");
        var heard = client.audio().transcriptions().create(TranscriptionCreateParams.builder().model(TONE).file(file).build());
        same(SAID, heard.asTranscription().text());
        works("transcription");
        Files.delete(file);
    }

    static void anthropicSdk(String root) {
        var client = AnthropicOkHttpClient.builder().baseUrl(root).apiKey(KEY).build();
        var request = MessageCreateParams.builder().model(ECHO).maxTokens(100).addUserMessage(TEXT).build();
        same(TEXT, client.messages().create(request).content().get(0).text().orElseThrow().text());
        works("chat");
        try (var events = client.messages().createStreaming(request)) {
            same(TEXT, events.stream().flatMap(event -> event.contentBlockDelta().stream())
                .flatMap(delta -> delta.delta().text().stream()).map(text -> text.text()).collect(Collectors.joining()));
        }
        works("streaming");
    }

    static class Forecast {
        @Tool("weather")
        public String weather(@P("the city to look at") String city) {
            return WEATHER;
        }
    }

    interface Assistant {
        String chat(String text);
    }

    static void langchain4j(Function<String, ChatModel> make, StreamingChatModel streaming) throws Exception {
        same(TEXT, make.apply(ECHO).chat(TEXT));
        works("chat");
        var whole = new CompletableFuture<String>();
        streaming.chat(TEXT, new StreamingChatResponseHandler() {
            final StringBuilder text = new StringBuilder();

            @Override
            public void onPartialResponse(String piece) {
                text.append(piece);
            }

            @Override
            public void onCompleteResponse(ChatResponse response) {
                whole.complete(text.toString());
            }

            @Override
            public void onError(Throwable error) {
                whole.completeExceptionally(error);
            }
        });
        same(TEXT, whole.get(10, TimeUnit.SECONDS));
        works("streaming");
        var assistant = AiServices.builder(Assistant.class).chatModel(make.apply(SCRIPTED)).tools(new Forecast()).build();
        same(true, assistant.chat(TEXT).contains(WEATHER));
        works("tools");
    }

    static void springAi(String root) throws Exception {
        var at = root + "/v1";
        var model = org.springframework.ai.openai.OpenAiChatModel.builder()
            .options(((OpenAiChatOptions.Builder) OpenAiChatOptions.builder().baseUrl(at).apiKey(KEY).model(ECHO)).build()).build();
        same(TEXT, model.call(TEXT));
        works("chat");
        same(TEXT, model.stream(new Prompt(TEXT)).toStream().flatMap(response -> response.getResults().stream())
            .map(result -> result.getOutput().getText()).filter(text -> text != null).collect(Collectors.joining()));
        works("streaming");
        var speech = OpenAiAudioSpeechModel.builder().options(OpenAiAudioSpeechOptions.builder().baseUrl(at).apiKey(KEY).model(TONE)
            .voice("alloy").responseFormat("wav").build()).build();
        var file = Files.write(Files.createTempFile("speech", ".wav"), speech.call(SAID));
        works("speech");
        var transcription = OpenAiAudioTranscriptionModel.builder().options(
            OpenAiAudioTranscriptionOptions.builder().baseUrl(at).apiKey(KEY).model(TONE).build()).build();
        same(SAID, transcription.transcribe(new FileSystemResource(file)).strip()); // its format is text, which ends with a line feed
        works("transcription");
        Files.delete(file);
    }

    public static void main(String[] arguments) throws Exception {
        PROGRAMS.get(arguments[0]).run(arguments[1]);
        System.exit(0); // some clients keep threads
    }
}
