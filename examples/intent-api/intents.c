// SPDX-License-Identifier: Apache-2.0
#include "intents.h"

static const char *const phrases_PlayMusic[] = {"music",
                                                "play music",
                                                "play some jazz",
                                                "put on a song",
                                                "I want to hear the Beatles",
                                                "start my workout playlist",
                                                "play the next album",
                                                "listen to rock music",
                                                NULL};
static const char *const phrases_PauseMusic[] = {"pause the music",
                                                 "stop playing",
                                                 "pause the song",
                                                 "hold the track",
                                                 "stop the playback",
                                                 "mute the playlist",
                                                 NULL};
static const char *const phrases_SkipTrack[] = {"next song",
                                                "skip this track",
                                                "play the next one",
                                                "jump to the next song",
                                                "skip it",
                                                "another song please",
                                                NULL};
static const char *const phrases_VolumeUp[] = {
    "louder",         "turn it up", "raise the volume", "increase the sound", "volume up please",
    "make it louder", NULL};
static const char *const phrases_VolumeDown[] = {"quieter",
                                                 "turn it down",
                                                 "lower the volume",
                                                 "decrease the sound",
                                                 "volume down please",
                                                 "too loud",
                                                 NULL};
static const char *const phrases_GetWeather[] = {"weather",
                                                 "what is the weather like",
                                                 "will it rain tomorrow",
                                                 "weather forecast for Paris",
                                                 "how cold is it outside",
                                                 "is it going to snow",
                                                 NULL};
static const char *const phrases_SetAlarm[] = {
    "set an alarm",         "wake me up at seven",
    "alarm for six thirty", "set my alarm for tomorrow morning",
    "wake me at dawn",      NULL};
static const char *const phrases_CancelAlarm[] = {"cancel the alarm", "turn off my alarm",
                                                  "delete the seven o'clock alarm",
                                                  "remove all alarms", NULL};
static const char *const phrases_SetTimer[] = {"set a timer for ten minutes", "start a countdown",
                                               "timer five minutes",
                                               "count down from sixty seconds", NULL};
static const char *const phrases_SetReminder[] = {"remind me to call mom", "set a reminder",
                                                  "remember to buy milk",
                                                  "remind me about the meeting tomorrow", NULL};
static const char *const phrases_AddToList[] = {
    "add eggs to my shopping list", "put bread on the list", "add milk to the groceries",
    "new item on my list", NULL};
static const char *const phrases_CreateEvent[] = {
    "schedule a meeting on Monday", "add an appointment to my calendar",
    "create an event for Friday", "book a meeting room at noon", NULL};
static const char *const phrases_ListEvents[] = {"what is on my calendar",
                                                 "do I have meetings today", "show my appointments",
                                                 "what are my plans this week", NULL};
static const char *const phrases_SendMessage[] = {"send a message to Anna", "text my brother",
                                                  "write an sms to the office",
                                                  "tell Peter I am late", NULL};
static const char *const phrases_ReadMessages[] = {
    "read my messages", "any new texts", "show unread messages", "what did Anna write", NULL};
static const char *const phrases_MakeCall[] = {
    "call my wife", "phone the dentist", "dial the office number", "make a call to John", NULL};
static const char *const phrases_SendEmail[] = {"send an email to my boss",
                                                "write a mail to the team", "compose an email",
                                                "mail the report to Lisa", NULL};
static const char *const phrases_ReadEmail[] = {"check my email", "read my new mails",
                                                "do I have mail", "open my inbox", NULL};
static const char *const phrases_BookRestaurant[] = {
    "book a table for two", "reserve a restaurant tonight", "find a table at an Italian restaurant",
    "make a dinner reservation", NULL};
static const char *const phrases_OrderFood[] = {"order a pizza", "get me some sushi delivered",
                                                "I want a burger",
                                                "order dinner from the Thai place", NULL};
static const char *const phrases_SearchRecipe[] = {"recipe for pancakes", "how do I cook rice",
                                                   "find a lasagna recipe",
                                                   "what can I bake with apples", NULL};
static const char *const phrases_BookFlight[] = {
    "book a flight to London", "find plane tickets to Tokyo", "fly to Berlin next week",
    "cheapest flight to Madrid", NULL};
static const char *const phrases_BookHotel[] = {
    "book a hotel in Rome", "find a room for two nights", "reserve a hotel near the beach",
    "hotel with breakfast in Vienna", NULL};
static const char *const phrases_BookTaxi[] = {"get me a taxi", "call a cab to the airport",
                                               "order a ride", "I need a car to the station", NULL};
static const char *const phrases_GetDirections[] = {"how do I get to the station",
                                                    "directions to the airport", "navigate home",
                                                    "show me the way to the museum", NULL};
static const char *const phrases_GetTraffic[] = {"how is the traffic", "is there a traffic jam",
                                                 "traffic on the way to work",
                                                 "how long is my commute", NULL};
static const char *const phrases_TrainTimes[] = {
    "when does the next train leave", "train times to Oxford", "bus schedule for line ten",
    "next departure to the city", NULL};
static const char *const phrases_LightsOn[] = {"turn on the lights", "lights on in the kitchen",
                                               "switch on the lamp", "make the room brighter",
                                               NULL};
static const char *const phrases_LightsOff[] = {"turn off the lights", "lights off in the bedroom",
                                                "switch off the lamp", "make it dark", NULL};
static const char *const phrases_SetTemperature[] = {
    "set the heating to twenty degrees", "make it warmer in here", "lower the thermostat",
    "turn the air conditioning on", NULL};
static const char *const phrases_LockDoor[] = {"lock the front door", "is the door locked",
                                               "close the garage", "secure the house", NULL};
static const char *const phrases_PlayMovie[] = {"play a movie", "watch a film tonight",
                                                "put on the latest episode",
                                                "stream a comedy series", NULL};
static const char *const phrases_GetNews[] = {
    "news", "what are the headlines", "tell me the latest news", "any news about technology", NULL};
static const char *const phrases_GetSports[] = {"who won the match", "football results",
                                                "score of the game last night",
                                                "when does my team play", NULL};
static const char *const phrases_GetStocks[] = {"stock price of Nvidia", "how is the market today",
                                                "share price please", "did the index go up", NULL};
static const char *const phrases_ConvertCurrency[] = {
    "convert euros to dollars", "how much is ten pounds in yen", "exchange rate of the dollar",
    "currency conversion", NULL};
static const char *const phrases_Translate[] = {
    "translate hello into French", "how do you say thanks in Spanish", "what does danke mean",
    "say good morning in Japanese", NULL};
static const char *const phrases_DefineWord[] = {"what does serendipity mean", "define entropy",
                                                 "meaning of the word zeitgeist",
                                                 "look up a word in the dictionary", NULL};
static const char *const phrases_TellJoke[] = {
    "tell me a joke", "make me laugh", "say something funny", "do you know a good joke", NULL};
static const char *const phrases_SmallTalk[] = {
    "hello", "how are you", "who are you", "good morning", "thank you", "what is your name", NULL};

const struct intent intents[] = {
    {"PlayMusic", phrases_PlayMusic},
    {"PauseMusic", phrases_PauseMusic},
    {"SkipTrack", phrases_SkipTrack},
    {"VolumeUp", phrases_VolumeUp},
    {"VolumeDown", phrases_VolumeDown},
    {"GetWeather", phrases_GetWeather},
    {"SetAlarm", phrases_SetAlarm},
    {"CancelAlarm", phrases_CancelAlarm},
    {"SetTimer", phrases_SetTimer},
    {"SetReminder", phrases_SetReminder},
    {"AddToList", phrases_AddToList},
    {"CreateEvent", phrases_CreateEvent},
    {"ListEvents", phrases_ListEvents},
    {"SendMessage", phrases_SendMessage},
    {"ReadMessages", phrases_ReadMessages},
    {"MakeCall", phrases_MakeCall},
    {"SendEmail", phrases_SendEmail},
    {"ReadEmail", phrases_ReadEmail},
    {"BookRestaurant", phrases_BookRestaurant},
    {"OrderFood", phrases_OrderFood},
    {"SearchRecipe", phrases_SearchRecipe},
    {"BookFlight", phrases_BookFlight},
    {"BookHotel", phrases_BookHotel},
    {"BookTaxi", phrases_BookTaxi},
    {"GetDirections", phrases_GetDirections},
    {"GetTraffic", phrases_GetTraffic},
    {"TrainTimes", phrases_TrainTimes},
    {"LightsOn", phrases_LightsOn},
    {"LightsOff", phrases_LightsOff},
    {"SetTemperature", phrases_SetTemperature},
    {"LockDoor", phrases_LockDoor},
    {"PlayMovie", phrases_PlayMovie},
    {"GetNews", phrases_GetNews},
    {"GetSports", phrases_GetSports},
    {"GetStocks", phrases_GetStocks},
    {"ConvertCurrency", phrases_ConvertCurrency},
    {"Translate", phrases_Translate},
    {"DefineWord", phrases_DefineWord},
    {"TellJoke", phrases_TellJoke},
    {"SmallTalk", phrases_SmallTalk},
};
const size_t n_intents = sizeof(intents) / sizeof(intents[0]);
