import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

/**
 * The JDK's HttpClient with its defaults, which Spring AI and LangChain4j use: it offers HTTP/2 with `Upgrade: h2c`.
 *
 *     java Http.java http://host:port
 *
 * Prints the status and the body of each answer, in a line of its own; both chats go over one kept connection.
 */
public class Http {
    public static void main(String[] arguments) throws Exception {
        String chat = "{\"model\": \"sim/echo\", \"messages\": [{\"role\": \"user\", \"content\": \"tell me something short\"}]%s}";
        HttpClient client = HttpClient.newHttpClient();
        for (String more : new String[] {"", ", \"stream\": true"}) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0] + "/v1/chat/completions"))
                    .header("Content-Type", "application/json").header("Authorization", "Bearer any")
                    .POST(BodyPublishers.ofString(String.format(chat, more))).build();
            var answer = client.send(request, BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.version() + " " + answer.body().replace("\n", " "));
        }
        var models = client.send(HttpRequest.newBuilder(URI.create(arguments[0] + "/v1/models")).build(), BodyHandlers.ofString());
        System.out.println(models.statusCode() + " " + models.version() + " " + models.body().replace("\n", " "));
    }
}
